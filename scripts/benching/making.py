"""One tool makes one file: ``PYTHON making.py TOOL SOURCE OUT.onnx ARGUMENTS``, in the Python that has the tool.

SOURCE is a folder of ``networks.py`` or another tool's file, ARGUMENTS an object in JSON. A tool that fails ends the
program with its own exception. Nothing here is imported before it is used: a Python need not have the other tools.
Each tool is called with its defaults.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def torch_onnx(folder: Path, out: Path, *, name: str, feeds: str, opset: int | None = None) -> None:
    """``torch.onnx.export`` as it comes, with the batch left free."""
    import torch

    from benching.networks import network

    inputs = {key: torch.from_numpy(array) for key, array in _arrays(feeds).items()}
    torch.onnx.export(
        network(name, str(folder)),
        kwargs=inputs,
        f=out,
        dynamo=True,
        opset_version=opset,
        dynamic_shapes={key: {0: "batch"} for key in inputs},
        input_names=list(inputs),
        verbose=False,
    )


def gelu_deploy_export(folder: Path, out: Path, *, name: str, feeds: str) -> None:
    """This project's ``export`` for this runtime, whose settings are measured."""
    import gelu_deploy

    source, given = f"{Path(__file__).with_name('networks.py')}:network", (f"name={name}", f"folder={folder}")
    result = gelu_deploy.export(source, arch_arg=given, data=feeds, target="ort-cpu", tune=True, output=str(out))
    _passed(result["verdict"], result["reason"])


def gelu_deploy_quantize(model: Path, out: Path, *, calibration: str, batch: int) -> None:
    """This project's ``quantize`` with its defaults."""
    import gelu_deploy

    result = gelu_deploy.quantize(str(model), calib_data=calibration, batch=batch, output=str(out))
    _passed(result["verdict"], result["reason"])


def weights(_: Path, out: Path, *, name: str, tiny: bool, config: dict[str, Any] | None = None) -> None:
    """Config and random weights, into the folder of ``out``."""
    from benching.networks import write

    write(name, out.parent, tiny=tiny, **(config or {}))


def answers(folder: Path, out: Path, *, name: str, feeds: list[str]) -> None:
    """PyTorch's own first output for every file of feeds, into ``answers.npz`` under its place."""
    from benching.openers import pytorch

    run = pytorch(name, str(folder))
    found = {str(place): next(iter(run(_arrays(file)).values())) for place, file in enumerate(feeds)}
    np.savez(out.with_name("answers.npz"), **found)  # type: ignore[arg-type]  # names are numbers, not allow_pickle


def gelus(model: Path, _: Path) -> None:
    """Prints how many GELUs are recognised in a file, and how many operators compute a whole one when it runs."""
    from gelu_deploy import runtime
    from gelu_deploy.graph.kernels import FUSED
    from gelu_deploy.graph.opening import open_graph
    from gelu_deploy.graph.recognize import find

    graph = open_graph(str(model)).model
    fused = sum(node.op_type in FUSED for node in runtime.optimised(graph).graph.all_nodes())
    print(json.dumps({"sites": len(find(graph).sites), "fused": fused}))


def onnxsim(model: Path, out: Path) -> None:
    """onnxsim with its defaults."""
    import onnx
    from onnxsim import simplify

    onnx.save(simplify(onnx.load(model))[0], out)


def onnxslim(model: Path, out: Path) -> None:
    """onnxslim with its defaults."""
    import_module("onnxslim").slim(str(model), str(out))


def ort_tool(model: Path, out: Path, *, fusions: str) -> None:
    """ONNX Runtime's Python optimizer, told the type of the model."""
    from onnxruntime.transformers import optimizer

    optimizer.optimize_model(str(model), model_type=fusions).save_model_to_file(str(out))


def onnxscript(model: Path, out: Path) -> None:
    """onnxscript's fusions for ONNX Runtime."""
    import onnx_ir as ir
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    optimized, _ = optimize_for_ort(ir.load(model))
    ir.save(optimized, out, external_data=f"{out.name}.data")


def optimum(folder: Path, out: Path, *, task: str) -> None:
    """Optimum's export; of several files the encoder's is kept."""
    made = out.parent / "optimum"
    import_module("optimum.exporters.onnx").main_export(str(folder), made, task=task, do_validation=False)
    file = next(found for name in ("encoder_model", "model") if (found := made / f"{name}.onnx").is_file())
    file.rename(out)
    (made / "config.json").rename(out.with_name("config.json"))


def optimum_optimize(model: Path, out: Path, *, level: str) -> None:
    """Optimum's optimizer at a level."""
    library = import_module("optimum.onnxruntime")
    optimizer = library.ORTOptimizer.from_pretrained(model.parent, file_names=[model.name])
    config = getattr(library.AutoOptimizationConfig, level)()
    optimizer.optimize(config, save_dir=out.parent, file_suffix="")


def optimum_quantize(model: Path, out: Path, *, cpu: str) -> None:
    """Optimum's dynamic INT8 for a kind of CPU."""
    library = import_module("optimum.onnxruntime")
    config = getattr(library.AutoQuantizationConfig, cpu)(is_static=False)
    quantizer = library.ORTQuantizer.from_pretrained(model.parent, file_name=model.name)
    quantizer.quantize(config, save_dir=out.parent, file_suffix="")


def ort_dynamic(model: Path, out: Path) -> None:
    """ONNX Runtime's dynamic quantization, weights per channel."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(model), str(out), per_channel=True)


def ort_static(model: Path, out: Path, *, calibration: str, batch: int) -> None:
    """ONNX Runtime's static quantization as it comes, after the preparation that its documentation asks for."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # it ships no types
        def __init__(self) -> None:
            self._batches: Iterator[dict[str, Any]] = iter(_cut(_arrays(calibration), batch))

        def get_next(self) -> dict[str, Any] | None:
            return next(self._batches, None)

    whole, ready = out.with_name("whole.onnx"), out.with_name("ready.onnx")
    onnx.save(onnx.load(model), whole)  # the preparation fails on weights in a file of their own
    quant_pre_process(str(whole), str(ready), skip_symbolic_shape=True)
    quantize_static(str(ready), str(out), Reader())
    whole.unlink()
    ready.unlink()


def _arrays(file: str) -> dict[str, Any]:
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


def _cut(arrays: dict[str, Any], batch: int) -> list[dict[str, Any]]:
    rows = len(next(iter(arrays.values())))
    return [{name: array[at : at + batch] for name, array in arrays.items()} for at in range(0, rows, batch)]


def _passed(verdict: str, reason: str) -> None:
    if verdict != "pass":
        raise RuntimeError(f"{verdict}: {reason}")


def main() -> None:
    """Run one of the functions above."""
    tool, source, out, arguments = sys.argv[1:]
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # benching is a package; its files hide no other module
    warnings.simplefilter("ignore")
    globals()[tool](Path(source), Path(out), **json.loads(arguments))


if __name__ == "__main__":
    main()
