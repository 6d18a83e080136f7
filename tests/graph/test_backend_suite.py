"""ONNX's own backend test suite: every node and model goes through recognition and rewriting and computes the same."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from gelu_deploy.graph.recognize import find
from gelu_deploy.graph.rewrite import Rewrite

COUNTS: Counter[str] = Counter()
PARTS = 8


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    from onnx.backend.test import loader
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's own generators divide by zero on purpose
        nodes = collect_testcases(None)
        kinds = ("simple", "pytorch-converted", "pytorch-operator")
        models = [case for kind in kinds for case in loader.load_model_tests(kind=kind)]
    return [*nodes, *models]


def proto_of(case: Any) -> onnx.ModelProto:
    return case.model if case.model is not None else onnx.load(f"{case.model_dir}/model.onnx")


@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_computes_the_same(cases: list[Any], part: int) -> None:
    for case in cases[part::PARTS]:
        proto = proto_of(case)
        COUNTS["cases"] += 1
        model = ir.from_proto(proto)
        found = find(model).sites
        opset = max(model.opset_imports.get("", 1), 1)
        before = ir.to_proto(model).SerializeToString(deterministic=True)
        result = Rewrite(found, spelling="ops", opset=opset).apply(model)
        assert not (result.modified and not found), case.name
        saved = ir.to_proto(result.model).SerializeToString(deterministic=True)
        if not result.modified:
            assert saved == before, case.name
            continue
        COUNTS["rewritten"] += 1
        assert "gelu" in case.name.lower() or "GELU" in case.name, case.name
        compare(case, onnx.load_from_string(saved))


def compare(case: Any, proto: onnx.ModelProto) -> None:
    onnx.checker.check_model(proto, full_check=True)
    session = ReferenceEvaluator(proto)
    for inputs, outputs in case.data_sets:
        names = [value.name for value in proto.graph.input]
        got = session.run(None, dict(zip(names, inputs, strict=False)))
        for one, wanted in zip(got, outputs, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=case.rtol, atol=case.atol)


def test_the_suite_is_all_there() -> None:
    assert COUNTS["cases"] > 1500, COUNTS
    assert COUNTS["rewritten"] >= 4, COUNTS
