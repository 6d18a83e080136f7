// ONNX Runtime Web in node, WebAssembly backend: one JSON request a line on stdin, one JSON answer a line on stdout.
// The package is found as node finds it: in node_modules here or above, or in a folder of NODE_PATH.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array, bool: Uint8Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
};

let ort;
let session;

function tensor({ file, dtype, shape }) {
  const bytes = readFileSync(file);
  const whole = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  return new ort.Tensor(dtype, new ARRAYS[dtype](whole), shape);
}

async function answer(request) {
  if (request.open !== undefined) {
    if (ort === undefined) {
      ort = createRequire(`${process.cwd()}/`)("onnxruntime-web");
      ort.env.wasm.numThreads = 1;
      ort.env.logLevel = "error";
    }
    await session?.release();
    session = undefined;
    session = await ort.InferenceSession.create(request.open, { executionProviders: ["wasm"] });
    return { version: ort.env.versions.web };
  }
  const feeds = Object.fromEntries(Object.entries(request.feeds).map(([name, given]) => [name, tensor(given)]));
  const found = await session.run(feeds);
  return Object.fromEntries(Object.entries(found).map(([name, { type, dims, data }], place) => {
    const file = `${request.folder}/out${place}.bin`;
    writeFileSync(file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return [name, { file, dtype: type, shape: dims }];
  }));
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = await answer(JSON.parse(line));
  } catch (error) {
    said = { error: String(error.message ?? error), code: error.code ?? "" };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
