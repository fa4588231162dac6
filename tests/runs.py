"""Runs nodes for several data of an input: one engine, and one program for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import wyrm as wy


def runner(outputs: Sequence[Any], x: Any, engine: str) -> Callable[[Any], list[Any]]:
    """Return a function that computes the outputs for data of `x`; "numpy" is the reference engine, not compiled."""
    if engine != "numpy":
        program = wy.compile(outputs, engine=engine)
        return lambda data: list(program({x: data}))

    def run(data: Any) -> list[Any]:
        x.set(data)
        return list(wy.run(outputs))

    return run
