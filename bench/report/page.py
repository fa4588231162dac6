"""The page of all rows, as Markdown: losing ones first, then what was measured with what, and each row's spread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from bench.report.growth import growth_tables, is_growth
from bench.report.results import DISTURBED, Machine, Measured, Result, Row, amount, caveats, rows
from bench.report.roofline import roofline_tables
from bench.report.table import missed

HEAD = """\
# Benchmarks

All rows of `python -m bench all`, drawn from [the files of results](../bench/results) alone; a test compares the two.
Each contender's rounds take turns with the others' in one case. A ratio is the peer's median time relative to wyrm's:
above 1, wyrm is faster. The floor is the ratio that wyrm aims at on any processor; a ratio below it is **bold**. Where
several machines were measured, the span has the smallest and the largest ratio.
"""


def page(machines: Mapping[str, Machine], digest: str) -> str:
    """Return the page of these machines."""
    every = [row for row in rows(machines) if not is_growth(row.case)]
    peers = [row for row in every if not row.other_work and row.ratios]
    parts = [
        f"<!-- digest of bench/results: {digest}; written by python -m bench.report -->\n{HEAD}",
        summary(peers, machines),
        section("Rows where wyrm is slower", [row for row in peers if row.ratios[0] < 1.0], machines),
        section("Rows where wyrm is faster", [row for row in peers if row.ratios[0] >= 1.0], machines),
        section(
            "Beside itself, and beside less or other work",
            [row for row in every if row.other_work and row.ratios], machines,
        ),
        limits(machines),
        *growth_tables(machines),
        *roofline_tables(machines),
        missing(machines),
        "## Machines\n",
        *(machine_text(name, machine) for name, machine in machines.items()),
        contents(machines),
    ]  # fmt: skip
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def contents(machines: Mapping[str, Machine]) -> str:
    """Return the list of the machines' pages of rounds."""
    return "\n".join(["## Rounds", "", "```{toctree}", *(f"benchmarks-{name}" for name in machines), "```"])


def summary(peers: Sequence[Row], machines: Mapping[str, Machine]) -> str:
    """Return how many rows are slower, and how many are below their floors."""
    slower = sum(row.ratios[0] < 1.0 for row in peers)
    floors = [row for row in peers if row.floor is not None]
    below = sum(row.ratios[0] < (row.floor or 0.0) for row in floors)
    where = " on any of these machines" if len(machines) > 1 else ""
    text = (
        f"Of {len(peers)} rows beside a peer, {slower} are slower than the peer{where}; of {len(floors)} with a floor, "
        f"{below} are below it. What ran, on which machine, stands [below](#machines)."
    )
    return " ".join([text, *(f"**{caveat}**" for caveat in caveats(machines))]) + "\n"


def machine_text(name: str, machine: Machine) -> str:
    """Return what a machine is, and what its runs had."""
    about = machine.processor
    caches = ", ".join(f"{level} {size}" for level, size in about["caches"].items())
    lines = [
        f"**{machine.name}** (`{name}`): {about['cores']} cores, {about['vectors']}, {caches}, {about['memory']}, "
        f"{about['system']}.",
        "",
    ]
    for position, run in enumerate(machine.runs):
        count = sum(result.run == position for result in machine.results.values())
        versions = ", ".join(f"{key} {value}" for key, value in run["versions"].items() if key != "wyrm")
        values = ", ".join(f"`{key}={value}`" for key, value in run["settings"].items()) or "none"
        lines.append(
            f"- {run['started']}, commit {run['versions']['wyrm']}: {count} cases{' of few rounds' * run['quick']}; "
            f"{versions}; settings: {values}."
        )
    return "\n".join(lines) + "\n"


def section(title: str, chosen: Sequence[Row], machines: Mapping[str, Machine]) -> str:
    """Return a table of rows, with a column for each machine."""
    if not chosen:
        return ""
    spans = ["span"] if len(machines) > 1 else []
    lines = [
        f"## {title}",
        "",
        *header(["case", "beside", "floor", *spans, *(each.name for each in machines.values())]),
    ]
    for row in chosen:
        cells = [row.case, row.contender, "" if row.floor is None else f"{row.floor:g}"]
        cells += [span(row.ratios)] if spans else []
        cells += [cell(row, name) for name in machines]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def header(names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]


def span(ratios: Sequence[float]) -> str:
    """Return the smallest and the largest ratio.

    >>> span([0.951, 2.03]), span([1.2])
    ('0.95 to 2.03', '1.20')
    """
    low, high = f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"
    return low if low == high else f"{low} to {high}"


def cell(row: Row, machine: str) -> str:
    """Return a row's ratio on a machine, and both medians."""
    result = row.results.get(machine)
    if result is None:
        return "not measured"
    ratio = result.ratio(row.contender)
    if math.isnan(ratio):
        return reason(result, row.contender)
    theirs, ours = (amount(result.contenders[name].median, result.unit) for name in (row.contender, "wyrm"))
    shown = f"**{ratio:.2f}**" if missed(result, row.contender) else f"{ratio:.2f}"
    return f"{shown} ({theirs} / {ours})"


def reason(result: Result, contender: str) -> str:
    """Return why a row has no ratio."""
    return next(
        (f"{name}: {found.missing}" for name in (contender, "wyrm") if (found := result.contenders[name]).missing), ""
    )


def limits(machines: Mapping[str, Machine]) -> str:
    """Return the cases without a peer, or with a limit for wyrm itself."""
    lines = []
    for key in sorted({key for machine in machines.values() for key in machine.results}):
        of_machines = [machine.results.get(key) for machine in machines.values()]
        first = next(each for each in of_machines if each is not None)
        if first.most is None and any(not name.startswith("wyrm") for name in first.contenders):
            continue
        cells = [key, "" if first.most is None else amount(first.most, first.unit), first.goal]
        for result in of_machines:
            measured = Measured(missing="not measured") if result is None else result.contenders["wyrm"]
            value = measured.missing or amount(measured.median, first.unit) + memory(measured)
            over = result is not None and missed(result, "wyrm")
            cells.append(f"**{value}**" if over else value)
        lines.append(f"| {' | '.join(cells)} |")
    names = ["case", "at most", "goal", *(each.name for each in machines.values())]
    return "\n".join(["## Times of wyrm alone", "", *header(names), *lines]) + "\n" if lines else ""


def memory(measured: Measured) -> str:
    """Return the peak memory, if it was measured."""
    return "" if measured.peak_bytes is None else f", {measured.peak_bytes / 2**20:.0f} MiB"


def missing(machines: Mapping[str, Machine]) -> str:
    """Return the rows that could not be measured, and why."""
    lines = [
        f"| {key} | {contender} | {machine.name} | {measured.missing} |"
        for machine in machines.values()
        for key, result in machine.results.items()
        for contender, measured in result.contenders.items()
        if measured.missing
    ]
    names = ["case", "contender", "machine", "why"]
    return "\n".join(["## Not measured", "", *header(names), *lines]) + "\n" if lines else ""


def rounds(machine: Machine, digest: str) -> str:
    """Return the page of a machine: the spread of every contender's rounds, and how busy the machine was."""
    lines = [
        f"<!-- digest of bench/results: {digest}; written by python -m bench.report -->",
        f"# Rounds on {machine.name}",
        "",
        "The rows of [the benchmarks](benchmarks.md), with each contender's least, median and largest time. `load` is "
        "the load average before the case, `others` how many cores other programs kept busy during it: "
        f"above {DISTURBED}, it is **bold**.",
        "",
        *header(["case", "contender", "rounds", "least", "median", "largest", "memory", "load", "others"]),
    ]
    for key, result in machine.results.items():
        lines += detail(key, result)
    return "\n".join(lines) + "\n"


def detail(key: str, result: Result) -> Iterable[str]:
    """Return the lines of a case."""
    busy = f"**{result.others:.2f}**" if result.disturbed else f"{result.others:.2f}"
    for name, measured in result.contenders.items():
        if not measured.missing:
            times = (amount(each, result.unit) for each in (measured.least, measured.median, measured.largest))
            yield (
                f"| {key} | {name} | {measured.rounds} | {' | '.join(times)} | {memory(measured).removeprefix(', ')} | "
                f"{result.load:.2f} | {busy} |"
            )
