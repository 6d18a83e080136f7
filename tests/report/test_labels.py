"""Labels beside points: none lies on another, whatever the width of the screen."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from gelu_deploy.report import labels
from gelu_deploy.report.labels import Box, Placed

HEIGHT = 340.0


def box(point: tuple[float, float], text: str, placed: Placed, width: float) -> Box:
    long, x, y = labels.CHARACTER * len(text), point[0] * width + placed.dx, point[1] + placed.dy
    left = x if placed.side == "right" else x - long
    return Box(left, y - labels.LINE / 2, left + long, y + labels.LINE / 2)


def boxes(points: list[tuple[float, float]], texts: list[str], width: float) -> list[Box]:
    placed = labels.place(points, texts, [], HEIGHT)
    return [box(*one, width) for one in zip(points, texts, placed, strict=True)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("width", [268.0, 320.0, 550.0, 900.0, 1180.0])
def test_twelve_crowded_labels_do_not_overlap(seed: int, width: float) -> None:
    random = np.random.default_rng(seed)
    points = [(float(x), float(y)) for x, y in zip(random.beta(2, 4, 12), random.normal(170, 25, 12), strict=True)]
    texts = [f"{'twin ' * (seed % 2)}int8 form{index}" for index in range(12)]
    assert max(one.overlap(other) for one, other in combinations(boxes(points, texts, width), 2)) < 10


@pytest.mark.parametrize("width", labels.WIDTHS)
def test_labels_at_the_rims_stay_inside(width: float) -> None:
    points = [(0.0, 5.0), (1.0, 5.0), (0.0, HEIGHT), (1.0, HEIGHT)]
    for one in boxes(points, ["float tanh"] * 4, width):
        assert one.left >= -31
        assert one.right <= width + 9
        assert one.top >= -1
        assert one.bottom <= HEIGHT + 1


def test_a_lone_label_is_near_and_needs_no_line() -> None:
    (placed,) = labels.place([(0.5, 100.0)], ["int8"], [], HEIGHT)
    assert not placed.far


def test_a_label_keeps_off_a_whisker() -> None:
    whisker = (0.3, 0.9, 100.0)
    (placed,) = labels.place([(0.3, 100.0)], ["int8"], [whisker], HEIGHT)
    assert box((0.3, 100.0), "int8", placed, 700.0).overlap(Box(210.0, 98.0, 630.0, 102.0)) == 0
