"""The table of targets: what each runs, how a GELU must be written for it, and where every such fact comes from.

A new target is one more entry of ``TARGETS``. It knows the forms, and nothing of graphs, files or runtimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from gelu_deploy import gelu
from gelu_deploy.errors import UsageError
from gelu_deploy.targets import operators

CONTRIB = "com.microsoft"

Written = tuple[str, str]
"""A form and a spelling."""

NONE = frozenset[str]()


@dataclass(frozen=True)
class Target:
    """Where a model is to run.

    Attributes:
        name: As ``--target`` has it.
        opset: Operator set that is written.
        newest: The highest one that it is known to take.
        sources: What the other facts rest on, by field: pages, files of public repositories, or what was measured.
        spellings: Ways to write a form, the best first.
        instead: What it computes in the place of what is written, for the ways to write a GELU that it changes.
        operators: ONNX operators that it takes; None: every one of its operator set.
        contrib: Operators of com.microsoft that it takes; None: every one.
        tried: The version that was tried here, ``""`` if none was.
    """

    name: str
    opset: int
    newest: int
    sources: Mapping[str, str]
    spellings: tuple[str, ...] = ("ops",)
    instead: Mapping[Written, str] = field(default_factory=dict[Written, str])
    operators: frozenset[str] | None = None
    contrib: frozenset[str] | None = NONE
    tried: str = ""

    def takes(self, op: str, domain: str = "") -> bool:
        """Whether an operator runs there."""
        if domain in {"", "ai.onnx"}:
            return self.operators is None or op in self.operators
        return self.contrib is None or (domain == CONTRIB and op in self.contrib)

    def missing(self, form: str, spelling: str) -> str:
        """The first operator of a way to write a form that does not run there, ``""`` if all do."""
        steps = gelu.FORMS[form].spellings[spelling].steps
        return next((step.op for step in steps if not self.takes(step.op, step.domain)), "")

    def spelling(self, form: str, opset: int) -> str | None:
        """The best way to write a form at an operator set so that it is computed as written; None if there is none."""
        known = gelu.FORMS[form].spellings
        fit = (name for name in self.spellings if name in known and known[name].since <= opset)
        return next((s for s in fit if (form, s) not in self.instead and not self.missing(form, s)), None)

    def written(self, opset: int) -> dict[str, str]:
        """The spelling of every form that it computes as written."""
        found = {form: self.spelling(form, opset) for form in gelu.FORMS}
        return {form: spelling for form, spelling in found.items() if spelling is not None}


def named(name: str | None) -> Target | None:
    """The target of this name; None for None. Raises UsageError for a name that is none."""
    if name is None or name in TARGETS:
        return None if name is None else TARGETS[name]
    near = get_close_matches(name, TARGETS, n=1)
    raise UsageError(
        f"--target {name}: there is no such target; "
        + (f"did you mean {near[0]}?" if near else f"there are {', '.join(TARGETS)}")
    )


KERNELS = "microsoft/onnxruntime docs/OperatorKernels.md"
SITES = "every form alone on a grid, against its float64 reference"
BY_RUNNING = "ONNX's own test cases of each operator and models of a few nodes, run"
BY_VIT = "the digits ViT of models/ at opsets 13, 17, 20, 21 and 23"

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "ort-cpu",
            23,
            25,
            {
                "opset": "measured with ONNX Runtime 1.32.0: from 23 on attention is one operator, and BERT, ViT, "
                f"GPT-2 and Whisper's encoder take 0.89 to 0.98 of the time; {KERNELS}: up to opset 25",
                "spellings": f"measured with ONNX Runtime 1.32.0: {SITES}, one kernel each",
                "operators": "measured with ONNX Runtime 1.32.0: an operator without a kernel is inlined; the finished "
                "file is loaded before it is written",
            },
            spellings=("gelu", "ops"),
            contrib=None,
            tried="ONNX Runtime 1.32.0",
        ),
        Target(
            "ort-cuda",
            20,
            25,
            {
                "opset": f"{KERNELS}, CUDAExecutionProvider: Gelu has a kernel from 20 on; up to opset 25",
                "spellings": f"{KERNELS}, CUDAExecutionProvider: Gelu, and com.microsoft FastGelu and QuickGelu",
                "operators": f"{KERNELS}, CUDAExecutionProvider: what is not there runs on the CPU",
            },
            spellings=("gelu", "ops"),
            operators=operators.ORT_CUDA,
            contrib=operators.ORT_CUDA_CONTRIB,
        ),
        Target(
            "openvino",
            20,
            23,
            {
                "opset": "openvinotoolkit/openvino src/frontends/onnx/docs/supported_ops.md: Gelu 20; "
                f"measured with OpenVINO 2026.4.1: {BY_VIT}",
                "spellings": f"measured with OpenVINO 2026.4.1: {SITES}",
                "operators": f"measured with OpenVINO 2026.4.1: {BY_RUNNING}",
            },
            spellings=("gelu", "ops"),
            operators=operators.OPENVINO,
            contrib=frozenset({"Gelu", "FastGelu", "QuickGelu"}),
            tried="OpenVINO 2026.4.1",
        ),
        Target(
            "opencv",
            17,
            23,
            {
                "opset": f"measured with OpenCV 5.0.0: {BY_VIT}",
                "spellings": f"measured with OpenCV 5.0.0: {SITES}",
                "instead": "measured with OpenCV 5.0.0: it ignores the attribute approximate",
                "operators": f"measured with OpenCV 5.0.0: {BY_RUNNING}",
            },
            instead={("tanh", "gelu"): "erf"},
            operators=operators.OPENCV,
            contrib=frozenset({"Gelu"}),
            tried="OpenCV 5.0.0",
        ),
        Target(
            "mnn",
            17,
            23,
            {
                "opset": f"measured with MNN 3.6.1: {BY_VIT}",
                "spellings": f"measured with MNN 3.6.1: {SITES}; of the erf form ½x·(1+erf) stays what it is, and "
                "x·(1+erf)·½, which PyTorch's TorchScript exporter writes, becomes tanh",
                "instead": "measured with MNN 3.6.1: one operator for every Gelu, 1.8e-4 from the tanh form",
                "operators": f"measured with MNN 3.6.1: {BY_RUNNING}",
            },
            instead={
                ("erf", "gelu"): "tanh",
                ("erf", "contrib"): "tanh",
                ("tanh", "gelu"): "tanh to three digits",
            },
            operators=operators.MNN,
            tried="MNN 3.6.1",
        ),
        Target(
            "tract",
            17,
            23,
            {
                "opset": f"measured with tract 0.23.9: {BY_VIT}",
                "spellings": f"measured with tract 0.23.9: {SITES}",
                "operators": f"measured with tract 0.23.9: {BY_RUNNING}",
            },
            operators=operators.TRACT,
            contrib=frozenset({"Gelu", "FastGelu", "QuickGelu"}),
            tried="tract 0.23.9",
        ),
        Target(
            "ort-web",
            17,
            25,
            {
                "opset": "https://www.npmjs.com/package/onnxruntime-web: ONNX Runtime's CPU engine, so its opsets; 17 "
                "is written because releases from before Gelu had a kernel are still on many pages",
                "spellings": f"{KERNELS}, CPUExecutionProvider: operators are fused when the file is loaded",
                "operators": "https://www.npmjs.com/package/onnxruntime-web: full coverage of ONNX operators in "
                "WebAssembly",
            },
            contrib=None,
        ),
        Target(
            "portable-13",
            13,
            13,
            {
                "opset": "onnx/onnx docs/Versioning.md: ONNX 1.8, which every runtime of today reads",
                "spellings": "the operators of a form, with no operator that opset 13 lacks",
                "operators": "onnx/onnx docs/Changelog.md: the default domain at opset 13, and no other domain",
            },
            tried="ONNX Runtime 1.32.0",
        ),
        Target(
            "tensorrt",
            17,
            17,
            {
                "opset": "onnx/onnx-tensorrt docs/operators.md: TensorRT 8.5 takes operators up to opset 17",
                "spellings": "onnx/onnx-tensorrt docs/operators.md: Erf, Tanh, Pow and Sigmoid; there is no Gelu",
                "operators": "onnx/onnx-tensorrt docs/operators.md",
            },
            operators=operators.TENSORRT,
        ),
        Target(
            "coreml",
            20,
            20,
            {
                "opset": "microsoft/onnxruntime tools/ci_build/github/apple/coreml_supported_mlprogram_ops.md: Gelu",
                "spellings": "the same list: Erf, Tanh, Pow, Sigmoid; whether its Gelu heeds approximate is not said",
                "operators": "microsoft/onnxruntime tools/ci_build/github/apple/coreml_supported_mlprogram_ops.md",
            },
            operators=operators.COREML,
            contrib=frozenset({"QuickGelu", "FusedConv"}),
        ),
        Target(
            "qnn",
            20,
            20,
            {
                "opset": "onnxruntime/onnxruntime-qnn docs/execution_providers/QNN-ExecutionProvider.md: Gelu",
                "spellings": "the same list: Gelu for the erf form, since Erf is taken in fused patterns only",
                "instead": "not said there, so not relied on: whether its Gelu heeds approximate",
                "operators": "onnxruntime/onnxruntime-qnn docs/execution_providers/QNN-ExecutionProvider.md",
            },
            spellings=("gelu", "ops"),
            instead={("tanh", "gelu"): "perhaps erf"},
            operators=operators.QNN,
            contrib=operators.QNN_CONTRIB,
        ),
        Target(
            "rknn",
            19,
            19,
            {
                "opset": "https://github.com/rockchip-linux/rknn-toolkit2/releases v1.6.0: opset 12 to 19",
                "spellings": "rockchip-linux/rknn-toolkit2 doc/RKNN-Toolkit2_OP_Support-1.6.0.md: Tanh, Pow and "
                "Sigmoid; neither Erf nor Gelu",
                "operators": "rockchip-linux/rknn-toolkit2 doc/RKNN-Toolkit2_OP_Support-1.6.0.md",
            },
            operators=operators.RKNN,
        ),
    )
}
