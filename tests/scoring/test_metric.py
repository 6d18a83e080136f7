"""Top-1 by its laws; metrics of a user's own: what is taken, and what is said of what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from gelu_deploy.arrays import Array, Arrays
from gelu_deploy.errors import TargetError, UsageError
from gelu_deploy.scoring.metric import BUILT_IN, Metric, named

INPUTS: Arrays = {"x": np.zeros((4, 3))}


def value(metric: Metric, scores: Array) -> float:
    return metric.finish(float(scores[:, 0].sum() / scores[:, 1].sum()))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.lists(st.integers(1, 3), max_size=2), st.integers(2, 5), st.integers(0, 2**16))
def test_top1_is_sklearns_accuracy_of_what_is_no_padding(rows: int, more: list[int], classes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    output = random.normal(size=(rows, *more, classes)).astype(np.float32)
    labels = random.integers(-1, classes, (rows, *more))
    scores = named("top1").score({"logits": output}, labels, {"x": np.zeros((rows, 1))})
    assert scores.shape == (rows, 2)
    assert scores.dtype == np.float64
    counted = labels >= 0
    assert scores[:, 1].sum() == counted.sum()
    if counted.any():
        accuracy = accuracy_score(labels[counted], output.argmax(-1)[counted])
        assert value(named("top1"), scores) == pytest.approx(accuracy)


def test_top1_takes_the_first_output_and_counts_no_number_as_wrong() -> None:
    outputs = {"logits": np.array([[0.0, 1], [np.nan, 1]]), "other": np.zeros(3)}
    assert named("top1").score(outputs, np.array([1.0, 1.0]), {"x": np.zeros(2)}).tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("output", "labels", "said"),
    [
        (np.zeros((4, 3)), np.zeros((4, 1), int), r"labels came with shape \(4, 1\), the first output asks for \(4,\)"),
        (np.zeros((4, 3)), np.array([1, 2, 3, 1]), "label 3 came, but the first output has the classes 0 to 2"),
        (np.zeros((4, 3)), np.array([0.5, 0, 0, 0]), "labels came as float64 that are no numbers of classes"),
        (np.zeros((4, 3)), np.array(["cat"] * 4), "labels came as <U3 that are no numbers of classes"),
        (np.zeros((4, 1)), np.zeros(4, int), r"came with shape \(4, 1\); give a metric of your own: --metric FILE.py"),
        (np.zeros(4), np.zeros(4, int), r"came with shape \(4,\)"),
        (np.zeros((4, 3)), None, "metric top1 needs labels, and the data have none"),
    ],
)
def test_what_top1_cannot_score_is_said(output: Array, labels: Array | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        named("top1").score({"y": output}, labels, INPUTS)


def test_what_is_built_in_says_what_it_is() -> None:
    found = {name: named(name) for name in BUILT_IN}
    flags = {name: (one.name, one.higher_is_better, one.percent, one.needs_labels) for name, one in found.items()}
    assert flags == {
        "top1": ("top1", True, True, True),
        "perplexity": ("perplexity", False, False, True),
        "cer": ("cer", False, True, True),
    }
    assert [one.finish(1.0) for one in found.values()] == [1, pytest.approx(np.e), 1]


def own(folder: Path, body: str, after: str = "") -> str:
    """``FILE.py:NAME`` of a metric with this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    file = folder / "mine.py"
    file.write_text(
        f"import numpy as np\n\ndef metric(outputs, labels, inputs):\n{lines}\n\n{after}\n", encoding="utf-8"
    )
    return f"{file}:metric"


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WEIGHT = 3", encoding="utf-8")
    carried = "metric.higher_is_better = False\nmetric.percent = True\nmetric.finish = lambda number: number ** 0.5"
    text = own(tmp_path, "import beside\nreturn beside.WEIGHT * inputs['x'][:, 0] + outputs['y']", carried)
    metric = named(text)
    assert (metric.name, metric.higher_is_better, metric.percent, metric.needs_labels) == (text, False, True, False)
    scores = metric.score({"y": np.arange(4)}, None, {"x": np.ones((4, 2), np.float32)})
    assert scores.tolist() == [[3, 1], [4, 1], [5, 1], [6, 1]]
    assert metric.finish(9.0) == 3


def test_a_function_without_attributes_has_the_usual_ones(tmp_path: Path) -> None:
    metric = named(own(tmp_path, "return [[1, 2]] * 4"))
    assert (metric.higher_is_better, metric.percent, metric.needs_labels, metric.finish(0.5)) == (
        True,
        False,
        False,
        0.5,
    )
    assert metric.score({}, None, INPUTS).tolist() == [[1, 2]] * 4


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (
            "return np.zeros(3)",
            UsageError,
            r"gave shape \(3,\) for 4 rows: expected \(4,\), a score for each row, or",
        ),
        ("return 0.5", UsageError, r"gave shape \(\) for 4 rows"),
        ("return np.zeros((4, 3))", UsageError, r"gave shape \(4, 3\) for 4 rows"),
        ("return [1, 2, np.nan, 4]", UsageError, "gave nan: expected finite numbers"),
        ("return [[1, -2]] * 4", UsageError, "gave the denominator -2: expected none below 0"),
        ("return None", UsageError, r"gave shape \(\) for 4 rows"),
        ("return ['good'] * 4", UsageError, "gave a list, expected an array of numbers"),
        ("return labels[0]", TargetError, "failed: TypeError: 'NoneType' object is not subscriptable"),
        ("return outputs['z']", TargetError, "failed: KeyError: 'z'"),
    ],
)
def test_what_a_function_gives_is_checked(body: str, kind: type[UsageError], said: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=said) as raised:
        named(own(tmp_path, body)).score({"y": np.zeros(4)}, None, INPUTS)
    assert type(raised.value) is kind
    assert str(raised.value).startswith(f"metric {tmp_path / 'mine.py'}:metric ")


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("metric.percent = 'yes'", "percent is 'yes', expected True or False"),
        ("metric.finish = 2", "finish is 2, expected a function of a number"),
        (
            "def metric(outputs, labels): ...",
            r"expected a function of \(outputs, labels, inputs\); too many positional",
        ),
        ("metric = 3", r"expected a function of \(outputs, labels, inputs\); 3 is not a callable object"),
    ],
)
def test_what_is_no_metric_is_refused_before_anything_runs(after: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        named(own(tmp_path, "return 0", after))


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"no metric 'top5': expected top1, perplexity, cer, or FILE\.py:NAME"):
        named("top5")
    with pytest.raises(TargetError, match=r"no file mine\.py"):
        named(f"{tmp_path / 'mine.py'}:metric")


def test_a_finish_that_fails_is_said_and_one_that_overflows_is_infinite(tmp_path: Path) -> None:
    assert named("perplexity").finish(1e4) == np.inf
    assert named(own(tmp_path, "return 0", "import math\nmetric.finish = math.exp")).finish(1e4) == np.inf
    with pytest.raises(TargetError, match=r"metric failed: ValueError: math domain error|expected a nonnegative"):
        named(own(tmp_path, "return 0", "import math\nmetric.finish = math.sqrt")).finish(-1.0)
    with pytest.raises(UsageError, match=r"finish of metric .* gave no number for 2"):
        named(own(tmp_path, "return 0", "metric.finish = lambda number: float('nan')")).finish(2.0)
