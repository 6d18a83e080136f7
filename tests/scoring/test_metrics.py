"""Signal over noise, divergence, agreement and McNemar's test, against other libraries and by their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, entropy

from gelu_deploy.arrays import Array
from gelu_deploy.gelu import FORMS
from gelu_deploy.scoring.metrics import Energy, McNemar, accuracy, agreement, kl, predictions, sqnr


def test_sqnr_of_a_known_noise() -> None:
    reference = np.full((4, 8), 10, np.float32)
    assert sqnr(reference, reference + np.float32(0.1)) == pytest.approx(40, abs=1e-4)
    assert sqnr(reference.astype(np.float16), reference.astype(np.float16)) == np.inf
    assert sqnr(np.zeros(3), np.ones(3)) == -np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_sorts_as_worst(bad: float) -> None:
    good, broken = np.ones((2, 3)), np.ones((2, 3))
    broken[1, 2] = bad
    assert sqnr(good, broken) == sqnr(broken, good) == -np.inf
    assert agreement(good, np.where(np.isnan(broken), np.nan, good)) == (0.5 if np.isnan(bad) else 1.0)
    if bad != -np.inf:
        assert kl(good, broken) == kl(broken, good) == np.inf


def test_infinities_in_the_same_places_are_no_noise() -> None:
    masked = np.array([1.0, -np.inf, 2.0])
    assert sqnr(masked, masked) == np.inf
    assert sqnr(masked, np.array([1.1, -np.inf, 2.0])) == pytest.approx(10 * np.log10(5 / 0.01))
    assert kl(masked, masked) == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 2**16))
def test_energy_of_batches_is_the_energy_of_all(sizes: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    batches = [(random.normal(size=(n, 3)), random.normal(size=(n, 3))) for n in sizes]
    energy = Energy()
    for reference, got in batches:
        energy.add(reference, got)
    whole = sqnr(np.concatenate([a for a, _ in batches]), np.concatenate([b for _, b in batches]))
    assert energy.db == pytest.approx(whole)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shapes differ: \(2, 3\) and \(3, 2\)"):
        sqnr(np.zeros((2, 3)), np.zeros((3, 2)))


def test_divergence_is_scipys_for_logits_and_for_probabilities() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 16, 5)) * 4
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (a, b))
    wanted = float(np.mean(entropy(p, q, axis=-1)))
    assert kl(a, b) == pytest.approx(wanted)
    assert kl(p, q) == pytest.approx(wanted)
    assert kl(a, a + 3) == pytest.approx(0, abs=1e-12)


def test_a_probability_that_underflows_is_not_infinitely_wrong() -> None:
    p = np.array([[1.0, 1e-40, 0.0]], np.float32)
    q = np.array([[1.0, 0.0, 0.0]], np.float32)
    assert 0 <= kl(p, q) < 1e-30
    assert kl(np.array([[0.5, 0.5]], np.float32), np.array([[1.0, 0.0]], np.float32)) > 40


def test_predictions_and_what_they_are_worth() -> None:
    output = np.array([[0.1, 0.9], [0.8, 0.2], [np.nan, 9.0], [0.0, 1.0]])
    labels = np.array([1, 1, 1, 1])
    assert predictions(output).tolist() == [1, 0, -1, 1]
    assert accuracy(output, labels) == 0.5
    assert agreement(output, output) == 0.75


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_scipys_exact_binomial(lost: int, gained: int) -> None:
    wanted = binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert McNemar(lost, gained).p == pytest.approx(wanted)


def test_mcnemar_counts_rows_and_stands_thousands() -> None:
    before = np.array([[1, 0], [1, 0], [0, 1], [1, 0]])
    after = np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    test = McNemar.of(before, after, np.zeros(4, np.int64))
    assert (test.lost, test.gained) == (2, 1)
    assert McNemar(6000, 5000).p == pytest.approx(binomtest(6000, 11000).pvalue)


def _eight_bits(x: Array) -> Array:
    """``x`` through 256 evenly spaced codes that span it and hold zero."""
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = (high - low) / 255
    zero = np.round(-low / scale)
    codes = np.clip(np.round(x / scale) + zero, 0, 255)
    back: Array = (codes - zero) * scale
    return back


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([(0.0, 0.5), (0.0, 1.0), (0.0, 2.0), (-1.0, 1.0), (-3.0, 2.0)]),
    st.integers(0, 2**16),
)
def test_eight_bits_hold_a_relu_at_least_as_well_as_a_gelu(distribution: tuple[float, float], seed: int) -> None:
    """Claim S16 ("GELU survives quantization better") is false for equal pre-activations: ReLU's zeros are exact."""
    x = np.random.default_rng(seed).normal(*distribution, size=50_000)
    relu, gelu = np.maximum(x, 0), FORMS["erf"].reference(x)
    assert sqnr(relu, _eight_bits(relu)) >= sqnr(gelu, _eight_bits(gelu))
