"""Writing the page of a graph: GPT-2 of 124 million parameters, and 10,000 nodes with and without modules."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wyrm as wy
from bench.harness import Case, Measurement, timed


def _gpt2() -> wy.Node:
    model = wy.nn.GPT2(wy.nn.GPT2Config())
    tokens, targets = (wy.IndexInput(dims=(8, 1024), name=name) for name in ("tokens", "targets"))
    return model.loss(tokens, targets)


class _Block(wy.nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = wy.nn.LayerNorm(width)
        self.first, self.second = wy.nn.Linear(width, width), wy.nn.Linear(width, width)

    def __call__(self, x: Any) -> Any:
        return x + self.second(self.first(self.norm(x)).gelu())


def _modules() -> wy.Node:
    """Return a loss whose two passes have about 10,000 nodes, in 290 blocks."""
    blocks = [_Block(8) for _ in range(290)]
    result: Any = wy.nn.Sequential(*blocks)(wy.Input(dims=(4, 8), name="x"))
    return result.square().mean()  # type: ignore[no-any-return]


def _flat() -> wy.Node:
    """Return a node of about 10,000 nodes without modules, and without a gradient."""
    x = wy.Input(np.ones(8, np.float32), name="x")
    node: Any = x
    for _ in range(3333):
        node = (node * 0.5).tanh() + x
    return node  # type: ignore[no-any-return]


def _writing(build: Callable[[], wy.Node]) -> Callable[[], Measurement]:
    node = build()
    path = Path(tempfile.mkdtemp()) / "page.html"
    return timed(lambda: wy.view.page(node, path))


def cases() -> list[Case]:
    """Three graphs; the time of a page without that of opening it."""
    return [
        Case("view", name, {"wyrm": partial(_writing, build)}, goal=goal)
        for name, build, goal in (
            ("page of GPT-2 124M", _gpt2, "under 1 s"),
            ("page of 10,000 nodes in modules", _modules, "under 3 s"),
            ("page of 10,000 nodes, flat", _flat, "under 3 s"),
        )
    ]
