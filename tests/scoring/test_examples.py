"""Perplexity against PyTorch's cross entropy, character errors against a Levenshtein distance that tries all ways."""

from __future__ import annotations

from functools import cache
from itertools import groupby

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gelu_deploy.arrays import Array
from gelu_deploy.errors import TargetError
from gelu_deploy.scoring.examples import SMALLEST, cer, perplexity
from gelu_deploy.scoring.metric import named


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given_as", ["logits", "probabilities"])
def test_perplexity_is_the_exponential_of_torchs_cross_entropy(dtype: type, given_as: str) -> None:
    random = np.random.default_rng(0)
    logits: Array = (random.normal(size=(5, 7, 11)) * 3).astype(dtype)
    tokens = random.integers(0, 11, (5, 7))
    tokens[:, 5:] = -100
    tokens[2] = -100
    output = logits if given_as == "logits" else torch.softmax(torch.from_numpy(logits), -1).numpy()
    metric = named("perplexity")
    scores = metric.score({"y": output}, tokens, {"x": np.zeros((5, 7))})
    flat, wanted = torch.from_numpy(logits).flatten(0, 1).double(), torch.from_numpy(tokens).flatten()
    by_token = torch.nn.functional.cross_entropy(flat, wanted, reduction="none").reshape(5, 7)
    np.testing.assert_allclose(scores[:, 0], by_token.sum(1), rtol=1e-5)
    assert scores[:, 1].tolist() == [5, 5, 0, 5, 5]
    reference = torch.nn.functional.cross_entropy(flat, wanted).exp()
    assert metric.finish(scores[:, 0].sum() / scores[:, 1].sum()) == pytest.approx(float(reference), rel=1e-5)


@pytest.mark.parametrize("worst", [[np.nan, 0], [np.inf, 0], [-np.inf, 0], [-np.inf, -np.inf], [0, 200]])
def test_a_token_that_is_held_for_impossible_costs_what_the_smallest_probability_does(worst: list[float]) -> None:
    scores = perplexity({"y": np.array([[worst]], np.float32)}, np.array([[0]]), {})
    assert scores.tolist() == [[pytest.approx(-np.log(SMALLEST)), 1]]
    certain = np.array([[[1.0, 0.0]]], np.float32)
    assert perplexity({"y": certain}, np.array([[1]]), {})[0, 0] == pytest.approx(-np.log(SMALLEST))
    assert perplexity({"y": certain}, np.array([[0]]), {})[0, 0] == 0


def levenshtein(read: tuple[int, ...], text: tuple[int, ...]) -> int:
    @cache
    def apart(a: int, b: int) -> int:
        if not a or not b:
            return a + b
        replaced = apart(a - 1, b - 1) + (read[a - 1] != text[b - 1])
        return min(replaced, apart(a - 1, b) + 1, apart(a, b - 1) + 1)

    return apart(len(read), len(text))


def steps(classes: list[int], width: int = 5) -> Array:
    """An answer whose best classes these are, ``[1, time, classes]``."""
    return np.eye(width, dtype=np.float32)[classes][None]


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.lists(st.integers(1, 4), max_size=8))
def test_character_errors_are_the_fewest_edits_of_what_is_read(best: list[int], text: list[int]) -> None:
    read = tuple(character for character, _ in groupby(best) if character)
    scores = cer({"y": steps(best)}, np.array([[*text, -1, -1]]), {})
    assert scores.tolist() == [[levenshtein(read, tuple(text)), len(text)]]


def test_rows_are_scored_each_for_itself() -> None:
    output = np.concatenate([steps([1, 1, 0, 1, 2]), steps([0, 3, 3, 3, 0]), steps([4, 0, 4, 0, 4])])
    labels = np.array([[1, 1, 2], [3, -1, -1], [4, 4, -1]])
    assert named("cer").score({"y": output}, labels, {"x": np.zeros(3)}).tolist() == [[0, 3], [0, 1], [1, 2]]


def test_steps_that_are_no_numbers_are_read_as_nothing_that_is_right() -> None:
    broken = steps([1, 0, 2])
    broken[0, 2] = np.nan
    assert cer({"y": broken}, np.array([[1, 2]]), {}).tolist() == [[1, 2]]
    assert cer({"y": np.full_like(broken, np.nan)}, np.array([[1, 2]]), {}).tolist() == [[2, 2]]


@pytest.mark.parametrize(
    ("name", "shape", "labels", "said"),
    [
        ("perplexity", (2, 3, 5), np.zeros((2, 4), int), r"labels came as \(2, 4\), the first output as \(2, 3, 5\)"),
        ("perplexity", (2, 5), np.zeros(2, int), r"the first output as \(2, 5\): \(rows, length, tokens\)"),
        ("perplexity", (2, 3, 5), np.full((2, 3), 5), "token 5 came, but the first output has the tokens 0 to 4"),
        ("cer", (2, 3, 5), np.zeros((3, 4), int), r"labels came as \(3, 4\), the first output as \(2, 3, 5\)"),
        ("cer", (2, 3, 5), np.array([[1, 0], [2, 0]]), "labels hold class 0, which is the blank: give padding as -1"),
    ],
)
def test_labels_that_do_not_fit_are_said(name: str, shape: tuple[int, ...], labels: Array, said: str) -> None:
    with pytest.raises(TargetError, match=f"metric {name} failed: ValueError: .*{said}"):
        named(name).score({"y": np.ones(shape)}, labels, {"x": np.zeros(2)})
