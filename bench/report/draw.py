"""The page, the pictures, and the README's sentences, written from the files of results."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from bench.report.growth import is_growth
from bench.report.machine import ROOT
from bench.report.page import page, span
from bench.report.picture import draw as picture
from bench.report.results import RESULTS, caveats, digest, read, rows

PAGE = ROOT / "docs" / "benchmarks.md"
LIGHT, DARK = ROOT / "docs" / "benchmarks.svg", ROOT / "docs" / "benchmarks-dark.svg"
README = ROOT / "README.md"
_BLOCK = re.compile(r"(<!-- benchmarks -->\n\n).*?(<!-- /benchmarks -->\n)", re.DOTALL)


def drawn(folder: Path = RESULTS) -> dict[Path, str]:
    """Return the texts of all files that show results; nothing else than the results decides them."""
    machines, mark = read(folder), digest(folder)
    readme = README.read_text(encoding="utf-8")
    return {
        PAGE: page(machines, mark),
        LIGHT: picture(machines, mark, dark=False),
        DARK: picture(machines, mark, dark=True),
        README: _BLOCK.sub(lambda found: f"{found[1]}{sentences(folder)}{found[2]}", readme),
    }


def sentences(folder: Path = RESULTS) -> str:
    """Return what the README says of the results, with the pictures."""
    machines = read(folder)
    peers = [row for row in rows(machines) if row.ratios and not row.other_work and not is_growth(row.case)]
    slower = sum(row.ratios[0] < 1.0 for row in peers)
    names = " and ".join(
        f"{machine.name.partition(',')[0]} ({machine.processor['cores']} cores)" for machine in machines.values()
    )
    slowest = ", ".join(f"{span(row.ratios)} of {row.contender}'s in `{row.case}`" for row in peers[:3])
    text = (
        f"Measured on {names} beside PyTorch, JAX, `implicit` and others, wyrm is slower in {slower} of {len(peers)} "
        f"rows. [The page of all rows](docs/{PAGE.name}) has these first; `python -m bench all` measures them anew. "
        f"The lowest speeds are {slowest}."
    )
    text = " ".join([text, *caveats(machines)])
    about = "Time of PyTorch, JAX, implicit and others relative to wyrm: the slowest third of all cases, and programs"
    return (
        "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False, break_long_words=False)) + "\n\n<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="docs/{DARK.name}">\n'
        f'  <img src="docs/{LIGHT.name}" alt="{about}">\n</picture>\n\n'
    )


def draw() -> list[Path]:
    """Write all files; return those that changed."""
    changed = []
    for path, text in drawn().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
