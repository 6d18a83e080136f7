"""Where the labels of a plot's points go so that none lies on another.

It knows boxes in pixels and nothing of what they say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CHARACTER = 6.9
"""Pixels that a character is wide, at most on average."""
CROWD = 60.0
"""Pixels above and below a point in which labels of others had better not be."""
LINE = 15.0
GAP = 8.0
"""Pixels that are free behind a label."""
REACH = 12
"""Lines that a label may be away from its point, up or down."""
WIDTHS = (268.0, 420.0, 700.0, 1180.0)
"""Pixels that the plot is wide on a small phone, and on wider screens."""

Spot = tuple[float, float]
Bar = tuple[float, float, float]


@dataclass(frozen=True)
class Box:
    """Pixels, downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """Square pixels of both."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, wide) * max(0.0, high)

    def outside(self, frame: Box) -> float:
        """Square pixels that are not in the frame."""
        return (self.right - self.left) * (self.bottom - self.top) - self.overlap(frame)


@dataclass(frozen=True)
class Placed:
    """A label: the offset in pixels of the middle of its nearer end from the point, and on which side it is."""

    dx: float
    dy: float
    side: str

    @property
    def far(self) -> bool:
        """Whether a line must lead to it."""
        return abs(self.dy) > LINE


def place(points: list[Spot], texts: list[str], bars: list[Bar], height: float) -> list[Placed]:
    """One place for each text beside its point, the nearest that is free at every width.

    Args:
        points: Where they are: a share of the width, and pixels downwards.
        texts: One for each.
        bars: What labels should not cover, besides the points: two shares of the width, and pixels downwards.
        height: Of the plot, in pixels.
    """
    taken = {width: [*_boxes(points, bars, width)] for width in WIDTHS}
    found: dict[int, Placed] = {}
    for index in sorted(range(len(points)), key=lambda one: points[one]):
        others = [point for place, point in enumerate(points) if place != index]
        choices = list(_around())
        costs = [
            sum(
                _cost(_box(points[index], texts[index], one, width), width, taken[width], others, height)
                for width in WIDTHS
            )
            + abs(one.dy) / 2
            for one in choices
        ]
        best = choices[costs.index(min(costs))]
        for width, boxes in taken.items():
            boxes.append(_box(points[index], texts[index], best, width))
        found[index] = best
    return [found[index] for index in range(len(points))]


def _boxes(points: list[Spot], bars: list[Bar], width: float) -> Iterator[Box]:
    for x, y in points:
        yield Box(x * width - 7, y - 7, x * width + 7, y + 7)
    for left, right, y in bars:
        yield Box(left * width, y - 2, right * width, y + 2)


def _cost(box: Box, width: float, taken: list[Box], others: list[Spot], height: float) -> float:
    """Square pixels of what a label covers, more for what is outside, a little for being where other points' may be."""
    crowd = (Box(x * width - 7, y - CROWD, x * width + 7, y + CROWD) for x, y in others)
    outside = box.outside(Box(-30, 0, width + 8, height))
    return sum(map(box.overlap, taken)) + 4 * outside + sum(map(box.overlap, crowd)) / 20


def _around() -> Iterator[Placed]:
    """Places to try, nearest first."""
    for lines in range(REACH):
        for dy in (-10 - LINE * lines, 10 + LINE * lines):
            yield Placed(8, dy, "right")
            yield Placed(-8, dy, "left")


def _box(point: Spot, text: str, placed: Placed, width: float) -> Box:
    long = CHARACTER * len(text) + GAP
    near, middle = point[0] * width + placed.dx, point[1] + placed.dy
    left = near if placed.side == "right" else near - long
    return Box(left, middle - LINE / 2, left + long, middle + LINE / 2)
