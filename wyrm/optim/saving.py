"""Checks of a saved state of an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.support.options import MOST_STEPS


def check_state(
    who: str, mine: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray], cannot_be_negative: Callable[[str], bool]
) -> None:
    """Raise `CheckpointError` unless training can continue from the arrays `given`, which replace `mine`."""
    wrong = [
        f"{name} (has {mine[name].shape} {mine[name].dtype}, given {given[name].shape} {given[name].dtype})"
        for name in sorted(mine.keys() & given.keys())
        if mine[name].shape != given[name].shape or mine[name].dtype != given[name].dtype
    ]
    missing, extra = sorted(mine.keys() - given.keys()), sorted(given.keys() - mine.keys())
    found = {"missing": missing, "extra": extra, "mismatched": wrong}
    if any(found.values()):
        raise CheckpointError(
            f"the state does not match this {who}: "
            + "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
        )
    impossible = [
        f"{name} {problem}"
        for name in sorted(mine)
        if (problem := _impossible(given[name], cannot_be_negative(name))) is not None
    ]
    if impossible:
        raise CheckpointError(f"{who} cannot continue from this state: {', '.join(impossible)}")


def _impossible(values: np.ndarray, cannot_be_negative: bool) -> str | None:
    """Return why training cannot continue from a saved array, or None."""
    if not np.isfinite(values).all():
        return "holds a NaN or an infinity"
    if values.dtype.kind == "i" and (values >= MOST_STEPS).any():
        return "holds a count that is not below 2**62"
    return "holds a negative number" if cannot_be_negative and (values < 0).any() else None
