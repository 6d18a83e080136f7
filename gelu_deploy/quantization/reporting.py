"""What there is to say of a quantized model: layer by layer, by PyTorch module name, and of the whole.

It asks coverage, quality and judging, and decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import onnx_ir as ir

from gelu_deploy.data import Dataset
from gelu_deploy.progress import step
from gelu_deploy.quantization.decisions.deciding import Decided
from gelu_deploy.quantization.decisions.sensitivity import Effect
from gelu_deploy.quantization.measures import quality
from gelu_deploy.quantization.measures.causes import causes
from gelu_deploy.quantization.measures.coverage import FELL_BACK, Coverage, coverage
from gelu_deploy.quantization.measures.judging import JUDGED, Compared, compared
from gelu_deploy.quantization.measures.quality import LayerQuality
from gelu_deploy.quantization.measures.saturation import Saturation
from gelu_deploy.quantization.network import Network
from gelu_deploy.results import AccuracyResult, LayerResult, LobeResult, QuantizeResult, SensitivityResult

__all__ = ["FELL_BACK", "result"]

SCHEMA = "gelu-deploy/quantize/1"


@dataclass
class Made:
    """One quantized model on its way to a file.

    Attributes:
        network: The float network that it is compared with.
        model: What is written.
        judged: The same numbers in types whose sums this machine never cuts off.
        decided: How, for static INT8.
        effects: Operators by what each costs alone.
        drop: Points of accuracy lost and whether that is within the budget, where one was given.
    """

    network: Network
    model: ir.Model
    judged: ir.Model
    decided: Decided | None = None
    effects: list[Effect] = field(default_factory=list[Effect])
    drop: tuple[float, bool] | None = None


def result(made: Made, held: Dataset, labelled: Dataset | None) -> QuantizeResult:
    """Everything but files, options and the verdict.

    Args:
        made: What there is.
        held: Data that nothing was fitted to.
        labelled: Data with labels, for the accuracy.
    """
    network, decided = made.network, made.decided
    first = next(iter(held))
    with step("load in the runtime"):
        found = coverage(made.model, network.layers, first.inputs)
    with step("compare"):
        beside = compared(network, made.judged, held)
        exam = beside if labelled is None else compared(network, made.judged, labelled)
        rows = quality.report(network, made.judged, (b.inputs for b in islice(held, JUDGED))) if decided else []
    return QuantizeResult(
        schema=SCHEMA,
        source="",
        precision="",
        target_cpu="",
        calibration={} if decided is None else _calibration(decided, held),
        layers=_layers(found, rows, {} if decided is None else decided.saturation),
        lobes=[
            LobeResult(module=row.module, codes_below_zero=row.codes_below_zero, sqnr=row.lobe)
            for row in rows
            if row.codes_below_zero is not None and row.lobe is not None
        ],
        integer_share=found.share,
        operators=list(found.operators),
        causes=[cause.text for cause in causes(found, batch=first.rows)],
        sqnr=beside.sqnr if beside.finite else -math.inf,
        agreement=beside.agreement,
        sensitivity=[
            SensitivityResult(module=one.module, node=one.node, kl=one.kl, agreement=one.agreement)
            for one in made.effects
        ],
        accuracy=_accuracy(exam),
        bytes={},
        runtime={},
        notes=[] if decided is None else _saturation(decided),
        verdict="",
        reason="",
        files=[],
        seconds={},
    )


def _layers(found: Coverage, rows: Sequence[LayerQuality], saturation: Mapping[str, Saturation]) -> list[LayerResult]:
    by_node = {row.node: row for row in rows}
    made = list[LayerResult]()
    for one in (*found.layers, *found.others):
        row = by_node.get(one.node)
        made.append(
            LayerResult(
                module=one.name,
                node=one.node,
                op=one.op,
                kernels=list(one.kernels),
                integer=one.integer,
                macs=one.macs,
                sqnr_alone=row.alone if row else math.nan,
                sqnr=row.accumulated if row else math.nan,
                cut_off=saturation[one.node].outputs if one.node in saturation else math.nan,
                reason=one.reason,
            )
        )
    return made


def _accuracy(exam: Compared) -> AccuracyResult | None:
    if not exam.rows:
        return None
    return AccuracyResult(
        rows=exam.rows,
        before=exam.before,
        after=exam.after,
        lost=exam.test.lost,
        gained=exam.test.gained,
        p=exam.test.p,
    )


def _calibration(decided: Decided, held: Dataset) -> dict[str, str]:
    scores = {f"held-out SQNR with {name}": f"{score:.2f} dB" for name, score in decided.scores.items()}
    return {"data": held.name.removesuffix(" (held out)"), "method": decided.method, **scores}


def _saturation(decided: Decided) -> list[str]:
    """What pairs of products in 16 bits would do, and what was done about it; by layer it is in their rows."""
    names = {layer.node: layer.name for layer in decided.network.layers if layer.node not in decided.recipe.kept}
    cut = {node: one for node, one in decided.saturation.items() if one.outputs and node in names}
    if not cut:
        return []
    node, worst = max(cut.items(), key=lambda item: item[1].loss)
    repaired = sum(one in decided.recipe.unsigned for one in cut)
    line = (
        f"16-bit sums would cut off outputs in {len(cut)} of {len(names)} layers; {repaired} of them have unsigned "
        f"weights, which avoids it; worst in {names[node]}: {worst.outputs:.2%} of its outputs, {worst.exact:.1f} dB "
        f"becoming {worst.saturated:.1f}"
    )
    return [line]
