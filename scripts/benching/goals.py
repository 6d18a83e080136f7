"""What was to be reached, held against the records of a run; and what this project loses at, goal or none.

It reads records as they lie in build/bench, and measures nothing. A peer is faster, or slower, when the median of its
time over ours is 2 % off and nine rounds in ten say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from benching import export as exporting
from benching import models, record
from benching.peers import OURS

Record = Mapping[str, Any]
Row = Mapping[str, Any]

GAIN = 0.98
DECIBELS = 0.5
"""A difference in SQNR below this is none."""
MEMORY = 1.1
"""Memory of ours over the least of the peers' that is worth a line."""
FAST, WHOLE = 1.25, 2.0
"""What ``export`` may take of torch's own time, without and with its checks."""


@dataclass(frozen=True)
class Goal:
    """One line of the table; ``met`` is None where it was not measured."""

    text: str
    met: bool | None
    told: str

    @property
    def verdict(self) -> str:
        """In one or two words."""
        return {True: "met", False: "**missed**", None: "not measured"}[self.met]


def faster(row: Row) -> bool:
    """Whether a row's time is below ours beyond noise."""
    return bool(row["ratio"] < GAIN and row["high"] < 1)


def slower(row: Row) -> bool:
    """Whether it is above ours beyond noise."""
    return bool(row["ratio"] > 1 / GAIN and row["low"] > 1)


def goals(records: Mapping[str, Record | None]) -> list[Goal]:
    """Every goal, by the records of ``models`` and ``export``."""
    groups = (records["models"] or {"groups": []})["groups"]
    depths = (records["export"] or {"depths": []})["depths"]
    return [_best(groups), _unfused(groups), _int8(groups), *_exports(depths)]


def losses(records: Mapping[str, Record | None]) -> list[str]:
    """What a peer does better, whatever the goals say; a line each."""
    found = list[str]()
    for group in (records["models"] or {"groups": []})["groups"]:
        found += [f"{models.title(group)}: {line}" for line in _lost(group)]
    for depth in (records["export"] or {"depths": []})["depths"]:
        found += [f"export of {depth['layers']} layers: {line}" for line in _lost_export(depth)]
    for size in (records["passes"] or {"sizes": []})["sizes"]:
        rows = [row for row in size["rows"] if "ratio" in row and faster(row)]
        found += [f"passes on {size['operators']} operators: {_ahead(row)}" for row in rows]
    return found


def _peers(group: Record) -> list[Row]:
    """The rows that were timed and are not this project's."""
    return [row for row in group["rows"] if "ratio" in row and not row["variant"].startswith(OURS)]


def _own(group: Record) -> Row | None:
    """This project's, the first, if it was timed."""
    row: Row = group["rows"][0]
    return row if "ratio" in row else None


def _ahead(row: Row) -> str:
    return f"{row['variant']} takes {record.times(row)} of our time"


def _best(groups: list[Record]) -> Goal:
    text = "float: never slower than the best peer in ONNX Runtime, beyond noise"
    found = list[tuple[Record, Row]]()
    for group in (one for one in groups if one["precision"] == "fp32"):
        rows = [row for row in _peers(group) if row["onnxruntime"]]
        if _own(group) is None:
            return Goal(text, met=False, told=f"{models.title(group)}: {group['rows'][0]['reason']}")
        if rows:
            found.append((group, min(rows, key=lambda row: row["ratio"])))
    if not found:
        return Goal(text, None, "")
    lost = sum(faster(row) for _, row in found)
    group, row = min(found, key=lambda one: one[1]["ratio"])
    nearest = f"the best peer's time over ours is {record.times(row)} at worst"
    where = f"{row['variant']}, {models.title(group)}"
    return Goal(text, met=not lost, told=f"{len(found) - lost} of {len(found)} groups; {nearest} ({where})")


def _unfused(groups: list[Record]) -> Goal:
    text = "float: faster than a peer in ONNX Runtime whose GELUs stay unfused"
    rows = [
        (group, row)
        for group in groups
        if group["precision"] == "fp32"
        for row in _peers(group)
        if row["onnxruntime"] and row["fused"] < group["sites"]
    ]
    if not rows:
        return Goal(text, None, "")
    won = sum(slower(row) for _, row in rows)
    group, row = min(rows, key=lambda one: one[1]["ratio"])
    least = f"the least time over ours is {record.times(row)} ({row['variant']}, {models.title(group)})"
    return Goal(text, met=won == len(rows), told=f"{won} of {len(rows)} rows; {least}")


def _int8(groups: list[Record]) -> Goal:
    text = "INT8: the fastest, at equal or better SQNR"
    told, count = list[str](), 0
    for group in (one for one in groups if one["precision"] == "int8"):
        own, rows = _own(group), _peers(group)
        count += 1
        if own is None:
            told.append(f"{models.title(group)}: {group['rows'][0]['reason']}")
        elif bad := [row["variant"] for row in rows if faster(row) or _clearer(row, own)]:
            told.append(f"{models.title(group)}: not against {', '.join(bad)}")
    if not count:
        return Goal(text, None, "")
    return Goal(text, met=not told, told="; ".join([f"{count - len(told)} of {count} groups", *told]))


def _clearer(row: Row, own: Row) -> bool:
    """Whether a row's answers are nearer to PyTorch's than ours; without an SQNR they are the same, or no answers."""
    theirs, ours = (
        one["sqnr"] if one["sqnr"] is not None else inf * (-1 if one["reason"] else 1) for one in (row, own)
    )
    return bool(theirs > ours + DECIBELS)


def _exports(depths: list[Record]) -> Iterator[Goal]:
    for name, most, how in ((exporting.FAST, FAST, "with --no-verify"), (exporting.OURS, WHOLE, "with all checks")):
        yield _export(f"export: at most {most:g} times torch's own time {how}", depths, name, exporting.BASE, most)
    text = "export: never slower than Optimum, both with their checks"
    yield _export(text, depths, exporting.OURS, exporting.OPTIMUM, 1.0)


def _export(text: str, depths: list[Record], name: str, other: str, most: float) -> Goal:
    """One program's seconds over another's at every depth; a depth at which ours failed is a miss."""
    told, met = list[str](), list[bool]()
    for depth in depths:
        rows = {row["variant"]: row for row in depth["rows"]}
        if "ratio" not in rows[name]:
            told.append(f"{depth['layers']} layers: {rows[name]['reason']}")
            met.append(False)
        elif "ratio" in rows[other]:
            ratio = rows[name]["seconds"] / rows[other]["seconds"]
            told.append(f"{depth['layers']} layers {ratio:.2f}")
            met.append(ratio <= most)
    return Goal(text, met=all(met) if met else None, told=", ".join(told))


def _lost(group: Record) -> Iterator[str]:
    own = _own(group)
    if own is None:
        yield group["rows"][0]["reason"]
        return
    for row in group["rows"][1:]:
        if "ratio" in row and faster(row):
            yield _ahead(row)
    if group["precision"] == "fp32" and own["fused"] < group["sites"]:
        yield f"{group['sites'] - own['fused']} of our {group['sites']} GELUs stay unfused"
    if group["precision"] == "int8":
        for row in _peers(group):
            if _clearer(row, own):
                yield f"{row['variant']} has an SQNR of {row['sqnr']:.1f} dB, ours {own['sqnr']:.1f}"
    rows = [row for row in _peers(group) if row["onnxruntime"]]
    least = min(rows, key=lambda row: row["megabytes"], default=None)
    if least is not None and own["megabytes"] > MEMORY * least["megabytes"]:
        yield f"{least['variant']} needs {least['megabytes']:.0f} MB, ours {own['megabytes']:.0f}"


def _lost_export(depth: Record) -> Iterator[str]:
    rows = {row["variant"]: row for row in depth["rows"] if "ratio" in row}
    own = rows.pop(exporting.OURS, None)
    rows.pop(exporting.FAST, None)
    for name, row in rows.items() if own is not None else ():
        if row["seconds"] < GAIN * own["seconds"]:
            yield f"{name} takes {row['seconds']:.1f} s, ours with its checks {own['seconds']:.1f}"
        if row["megabytes"] * MEMORY < own["megabytes"]:
            yield f"{name} needs {row['megabytes']:.0f} MB, ours {own['megabytes']:.0f}"
