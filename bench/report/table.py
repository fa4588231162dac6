"""Results as text, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bench.report.results import Measured, Result, amount


def table(results: Iterable[Result]) -> str:
    """Return a line for each contender; a ratio of 3.0x means three times wyrm's time."""
    lines = [f"{'ratio':>8}  {'floor':>6}  {'median':>9}  {'least':>9}  {'peak':>9}  {'contender':<22}case"]
    for result in results:
        for name, measured in result.contenders.items():
            if measured.missing:
                lines.append(f"{'':>8}  {'':>6}  {'':>9}  {'':>9}  {'':>9}  {name:<22}{result.key}: {measured.missing}")
                continue
            peak = "" if measured.peak_bytes is None else f"{measured.peak_bytes / 2**20:.0f} MiB"
            ratio = result.ratio(name)
            lines.append(
                f"{'' if math.isnan(ratio) else f'{ratio:.2f}x':>8}  {floor(result, name):>6}  "
                f"{amount(measured.median, result.unit):>9}  {amount(measured.least, result.unit):>9}  {peak:>9}  "
                f"{name:<22}{result.key}{aim(result, name)}"
            )
    return "\n".join(lines)


def floor(result: Result, contender: str) -> str:
    """Return the least ratio that is aimed at, as text; for wyrm, the most that it may take."""
    if contender == "wyrm":
        return "" if result.most is None else f"<{amount(result.most, result.unit)}".replace(" ", "")
    return f"{result.floors[contender]:g}x" if contender in result.floors else ""


def aim(result: Result, contender: str) -> str:
    """Return what is aimed at in words, behind a case's first line."""
    return f"  ({result.goal})" if result.goal and contender == "wyrm" else ""


def missed(result: Result, contender: str) -> bool:
    """Return whether a contender's ratio is below its floor, or wyrm takes more than it may."""
    measured: Measured = result.contenders[contender]
    if contender == "wyrm":
        return result.most is not None and measured.median > result.most
    return result.ratio(contender) < result.floors.get(contender, 0.0)
