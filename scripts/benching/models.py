"""``scripts/bench models``: one network's files by every tool, timed in turns against this project's.

Each variant runs in a process of its own, and none while another's threads still spin (``gelu_deploy.timing``). Before
anything is timed, every file has been made (``workshop``). It judges nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from benching import record
from benching.networks import NETWORKS, Arrays
from benching.peers import OURS, PEERS, Peer, Precision
from benching.workshop import Made, Workshop
from gelu_deploy.errors import NativeCrash
from gelu_deploy.scoring.metrics import sqnr
from gelu_deploy.timing.interleaved import Timing, Variant, timed

ROUNDS, RUNS, SECONDS = 5, 3, 2.0
"""Turns of every variant, runs of a turn, and seconds after which a turn ends even so."""
SHARE, MORE = 0.7, 1.5
"""Of the free memory, what variants may take together; each is taken to need so many times what this project's does."""
HEADERS = ("variant", ">ms", ">time / ours", ">MB", ">GELUs fused", ">SQNR dB", "")


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        place: Folder of everything that is made and kept.
        python: The peers' Python.
        networks: Keys of the table.
        batches: Sizes of the batch.
        precisions: ``fp32`` and ``int8``.
        tiny: Small networks, for a trial.
        rounds: Turns of every variant.
    """

    place: Path
    python: Path
    networks: Sequence[str]
    batches: tuple[int, ...] = (1, 8)
    precisions: Sequence[Precision] = ("fp32", "int8")
    tiny: bool = False
    rounds: int = ROUNDS


def models(plan: Plan, *, only_make: bool = False) -> None:
    """Make every file, then time them group by group; the record grows with every group."""
    shops = [Workshop(name, plan.place, plan.python, plan.tiny, plan.batches) for name in plan.networks]
    for shop in shops:
        prepare(shop, plan)
    if only_make:
        return
    found = record.started("models", plan.python) | {"rounds": plan.rounds, "tiny": plan.tiny, "groups": []}
    for shop in shops:
        for batch in plan.batches:
            for precision in plan.precisions:
                group = measured(shop, precision, batch, plan.rounds)
                found["groups"].append(group)
                record.save(plan.place, "models", found)
                print(f"\n{title(group)}\n\n{shown(group)}", flush=True)


def prepare(shop: Workshop, plan: Plan) -> None:
    """Every file, and whatever compiles itself when it is first run."""
    for precision in plan.precisions:
        for peer in PEERS[precision]:
            made = shop.made(peer.name)
            told = made.reason or f"{made.seconds:.0f} s"
            print(f"{shop.name}: {peer.name}: {told}", file=sys.stderr, flush=True)
            for batch in plan.batches if peer.opener == "compiled" and made.file else ():
                with suppress(NativeCrash):  # the table will say it
                    timed([variant(shop, peer, made)], shop.feeds(batch), rounds=1, runs=1)


def measured(shop: Workshop, precision: Precision, batch: int, rounds: int) -> dict[str, Any]:
    """One network at one precision and batch: a row for every peer, in the order of the table."""
    made = {peer: shop.made(peer.name) for peer in PEERS[precision]}
    rows = {peer.name: {"variant": peer.name, "reason": one.reason} for peer, one in made.items()}
    ours, *others = [(peer, variant(shop, peer, one)) for peer, one in made.items() if one.file]
    if ours[0] == PEERS[precision][0]:  # else there is nothing to set times in relation to
        feeds, wanted = shop.feeds(batch), shop.answers(batch)
        for part in parts(ours, others, feeds):
            times, reasons = one_by_one(part, feeds, rounds)
            rows |= {name: {"variant": name, "reason": reason} for name, reason in reasons.items()}
            base = times[ours[0].name]
            rows |= {p.name: _row(p, made[p], times[p.name], base, wanted) for p, _ in part if p.name in times}
    head = {"network": shop.name, "title": NETWORKS[shop.name].title, "precision": precision, "batch": batch}
    return {**head, "sites": shop.made(OURS).sites, "rows": list(rows.values())}


def variant(shop: Workshop, peer: Peer, made: Made) -> Variant:
    """How a peer's file, or the network itself, is opened."""
    file = {"model": made.file} if peer.opener in {"session", "openvino"} else {"name": shop.name, "folder": made.file}
    return Variant(peer.name, f"benching.openers:{peer.opener}", file)


Entry = tuple[Peer, Variant]


def parts(ours: Entry, others: list[Entry], feeds: Arrays) -> Iterator[list[Entry]]:
    """All variants together if the memory allows it, else in parts that each have this project's own as their base."""
    (alone,) = timed([ours[1]], feeds, rounds=1, runs=1)
    room = int(SHARE * free_memory() / (MORE * alone.memory)) - 1
    size = max(1, room)
    for start in range(0, max(1, len(others)), size):
        yield [ours, *others[start : start + size]]


def free_memory() -> float:
    """Bytes that programs can still take; infinite where the system does not say."""
    info = Path("/proc/meminfo")
    lines = info.read_text(encoding="ascii").splitlines() if info.is_file() else []
    found = [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else float("inf")


def one_by_one(part: Sequence[Entry], feeds: Arrays, rounds: int) -> tuple[dict[str, Timing], dict[str, str]]:
    """Times by name, and the reasons of those that could not be run: without them the others are timed again.

    Raises NativeCrash if that is the first.
    """
    reasons = dict[str, str]()
    while True:
        left = [one for _, one in part if one.name not in reasons]
        try:
            found = timed(left, feeds, rounds=rounds, runs=RUNS, seconds=SECONDS)
        except NativeCrash as error:
            failed = next(one.name for one in left if str(error).startswith(f"{one.name} could not be timed: "))
            if failed == part[0][1].name:
                raise
            reasons[failed] = str(error).removeprefix(f"{failed} could not be timed: ")
            continue
        return {one.name: one for one in found}, reasons


def _row(peer: Peer, made: Made, time: Timing, base: Timing, wanted: Any) -> dict[str, Any]:
    noise, reason = _noise(next(iter(time.answers.values())), wanted)
    return {
        "variant": peer.name,
        "onnxruntime": peer.in_onnxruntime,
        "milliseconds": time.median,
        **record.spread(time.ratios(base)),
        "megabytes": time.memory / 1e6,
        "fused": made.fused if peer.in_onnxruntime else None,
        "sqnr": noise,
        "reason": reason,
    }


def _noise(answers: Any, wanted: Any) -> tuple[float | None, str]:
    """SQNR in dB, None where the answers are the same; or None and what is wrong with them."""
    if answers.shape != wanted.shape:
        return None, f"its first output is {answers.shape}, expected {wanted.shape}"
    found = sqnr(wanted, answers)
    return (found, "") if isfinite(found) else (None, "" if found > 0 else "its answers are not finite")


def title(group: Mapping[str, Any]) -> str:
    """``BERT-base, 128 tokens, fp32, batch 8``."""
    return f"{group['title']}, {group['precision']}, batch {group['batch']}"


def shown(group: Mapping[str, Any]) -> str:
    """The table of one group."""
    return record.table(HEADERS, ([row["variant"], *_cells(row, group["sites"])] for row in group["rows"]))


def _cells(row: Mapping[str, Any], sites: int) -> list[str]:
    if "ratio" not in row:
        return ["", "", "", "", "", row["reason"]]
    fused = "" if row["fused"] is None else f"{row['fused']} of {sites}"
    noise = f"{row['sqnr']:.1f}" if row["sqnr"] is not None else "" if row["reason"] else "same"
    return [f"{row['milliseconds']:.1f}", record.times(row), f"{row['megabytes']:.0f}", fused, noise, row["reason"]]
