"""The page, the pictures, and the README's sentences, written from the files of results."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.report.growth import is_growth
from bench.report.machine import ROOT
from bench.report.page import page, rounds, span
from bench.report.picture import draw as picture
from bench.report.picture import lines_of
from bench.report.results import RESULTS, Machine, caveats, digest, read, rows

PAGE = ROOT / "docs" / "benchmarks.md"
LIGHT, DARK = ROOT / "docs" / "benchmarks.svg", ROOT / "docs" / "benchmarks-dark.svg"
README = ROOT / "README.md"
with (ROOT / "pyproject.toml").open("rb") as _file:
    SITE: str = tomllib.load(_file)["project"]["urls"]["Documentation"]
_BLOCK = re.compile(r"(<!-- benchmarks -->\n\n).*?(<!-- /benchmarks -->\n)", re.DOTALL)


def drawn(folder: Path = RESULTS) -> dict[Path, str]:
    """Return the texts of all files that show results; nothing else than the results decides them."""
    machines, mark = read(folder), digest(folder)
    readme = README.read_text(encoding="utf-8")
    return {
        PAGE: page(machines, mark),
        **{PAGE.with_stem(f"{PAGE.stem}-{name}"): rounds(machine, mark) for name, machine in machines.items()},
        LIGHT: picture(machines, mark, dark=False),
        DARK: picture(machines, mark, dark=True),
        README: _BLOCK.sub(lambda found: f"{found[1]}{sentences(folder)}{found[2]}", readme),
    }


def sentences(folder: Path = RESULTS) -> str:
    """Return what the README says of the results: a table of programs, each beside its fastest peer, and caveats."""
    machines = read(folder)
    peers = [row for row in rows(machines) if row.ratios and not row.other_work and not is_growth(row.case)]
    slower = sum(row.ratios[0] < 1.0 for row in peers)
    models = Counter(f"{each.name.partition(',')[0]} ({each.processor['cores']} cores)" for each in machines.values())
    names = " and ".join(name if count == 1 else f"{count} models of {name}" for name, count in models.items())
    text = (
        f"Time of the fastest other library relative to wyrm's, on {names}: above 1, wyrm is faster. It is slower in "
        f"{slower} of {len(peers)} rows; [the page of all rows]({SITE}/{PAGE.stem}.html) has these first. "
        "`python -m bench all` measures them anew."
    )
    table = ["| program | beside | its time |", "| --- | --- | --- |"]
    for line in lines_of(machines)[1]:
        peer, ratios = min(line.ratios.items(), key=lambda each: each[1][0])
        table.append(f"| {line.label} | {peer}{versions(machines, peer)} | {span(ratios)} |")
    return "\n".join([wrapped(text), "", *table, "", wrapped(" ".join(caveats(machines))), "", ""]).replace(
        "\n\n\n\n", "\n\n"
    )


def versions(machines: Mapping[str, Machine], peer: str) -> str:
    """Return the versions of a peer's library that were measured, such as " 2.13"; nothing where none is noted."""
    library = peer.partition(".")[0]
    found = {run["versions"].get(library, "") for machine in machines.values() for run in machine.runs} - {""}
    return "".join(f" {'.'.join(each.partition('+')[0].split('.')[:2])}" for each in sorted(found))


def wrapped(text: str) -> str:
    """Return a text in lines of 120 characters."""
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False, break_long_words=False))


def draw() -> list[Path]:
    """Write all files; return those that changed."""
    changed = []
    for path, text in drawn().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
