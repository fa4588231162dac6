"""Programs inside `wyrm.random.at_step`, which all draw for its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode
from wyrm.ops.random.philox import STEP, pinned_step

_NOTHING = nullcontext()


class _Counts(Protocol):
    """What runs a program, and counts the steps that it draws for."""

    steps: int


def drawing(runs: _Counts) -> AbstractContextManager[None]:
    """Return a context in which a program draws for the step of `at_step`, without counting it among its own.

    Outside `at_step` the context does nothing.
    """
    step = pinned_step()
    return _NOTHING if step is None else _pinned(runs, step)


@contextmanager
def _pinned(runs: _Counts, step: int) -> Iterator[None]:
    own, runs.steps = runs.steps, step
    try:
        yield
    finally:
        runs.steps = own


def refuse_epoch(leaves: Sequence[BaseNode]) -> None:
    """Raise `OptionError` inside `at_step` if a graph with these leaves has random nodes."""
    step = pinned_step()
    if step is not None and any(leaf is STEP for leaf in leaves):
        raise OptionError(
            f"epoch: each step of an epoch draws anew, but inside at_step({step}) everything draws for step {step}; "
            f"train outside it, or call the program with one batch after the other"
        )
