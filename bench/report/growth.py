"""Cost as work grows: the cases of `bench.growth` as tables, a line for each size."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.report.results import Machine, Result, amount

BENCH = "growth: "


def is_growth(key: str) -> bool:
    """Return whether a case is one of growing work."""
    return key.startswith(BENCH)


def size_of(key: str) -> int:
    """Return the size that a case's name ends with.

    >>> size_of("growth: embedding, a step: rows of the table 10,000")
    10000
    """
    found = re.search(r"([\d,]+)$", key)
    return int(found[1].replace(",", "")) if found else 0


def growth_tables(machines: Mapping[str, Machine]) -> list[str]:
    """Return a section with a table for each kind of growth on each machine."""
    parts = []
    for machine in machines.values():
        families: dict[str, list[Result]] = {}
        for key, result in machine.results.items():
            if is_growth(key):
                families.setdefault(result.case.rpartition(" ")[0], []).append(result)
        for family, results in sorted(families.items()):
            parts.append(_table(family, machine, sorted(results, key=lambda result: size_of(result.case))))
    return [
        "## Cost as work grows",
        "The time of a unit, and in brackets a peer's relative to wyrm's.\n",
        *parts,
    ] * bool(parts)


def _table(family: str, machine: Machine, results: list[Result]) -> str:
    peers = list(dict.fromkeys(name for result in results for name in result.contenders))
    title, _, varied = family.partition(": ")
    lines = [
        f"**{title}** on {machine.name}",
        "",
        f"| {varied} | {' | '.join(peers)} |",
        f"| {' | '.join('---' for _ in range(len(peers) + 1))} |",
    ]
    for result in results:
        cells = []
        for name in peers:
            measured = result.contenders.get(name)
            if measured is None or measured.missing:
                cells.append("" if measured is None else measured.missing)
            else:
                ratio = "" if name == "wyrm" else f" ({result.ratio(name):.2f})"
                cells.append(f"{amount(measured.median, result.unit)}{ratio}")
        lines.append(f"| {result.case.rpartition(' ')[2]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
