"""Derivations: executing the printed lines gives the right gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotSet, ShapeError
from wyrm.view import to_derivation


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def computed(text: str, given: dict[str, float]) -> dict[str, float]:
    """Execute a derivation of scalars: forward from the top, backward from the bottom."""
    names: dict[str, Any] = {"sin": math.sin, "cos": math.cos, "exp": math.exp, "sigmoid": sigmoid, **given}
    lines = [line.split("  ") for line in text.splitlines()[1:]]
    parts = [[part.strip() for part in line if part.strip()] for line in lines]
    for line in parts:
        if "=" in line[0]:
            name, expression = line[0].split(" = ")
            names[name] = eval(expression, names)
    for line in reversed(parts):
        backward = next(part for part in line if part.startswith("d") and " = " in part)
        name, expression = backward.split("#")[0].split(" = ")
        names[name] = eval(expression, names)
    return names


def test_what_is_written_computes_the_gradients() -> None:
    x, y = (wy.Parameter(np.float64(value), name=name) for name, value in (("x", 0.7), ("y", -1.3)))
    loss = (x - (y - x * 2.0)) / (x * y).exp() - (-(x + y)) * y.sin() / (x / y - 3.0) + (x * y).sigmoid()
    text = to_derivation(loss)
    assert text.splitlines()[0].split("  ")[0] == "forward, top to bottom"
    found = computed(text, {"x": 0.7, "y": -1.3})
    loss.backward()
    assert found["dx"] == pytest.approx(float(x.gradient)) and found["dy"] == pytest.approx(float(y.gradient))


def test_show_prints_the_last_call(capsys: pytest.CaptureFixture[str]) -> None:
    @wy.function
    def energy(x: Any, labels: Any) -> Any:
        return (x @ x).mean() + x.take(labels, axis=0).sum()

    with pytest.raises(NotSet, match=r"not been called yet.*wy\.show\(.*energy, x, labels\), or call it"):
        wy.show(energy)
    wy.show(energy, np.eye(3), np.array([0, 2]))
    assert "x @ x" in capsys.readouterr().out
    plain: Any = energy.function
    with pytest.raises(TypeError, match=r"write @wy\.function above it"):
        wy.show(plain)
    energy(np.eye(3), np.array([0, 2]))
    wy.show(energy)
    text = capsys.readouterr().out
    assert "x @ x" in text and "dx = " in text and "dlabels" not in text and "test_view_derivation.py" in text
    both = wy.function(lambda x: (x, x))
    both(1.0)
    with pytest.raises(ShapeError, match="a single result array"):
        wy.show(both)
    with pytest.raises(TypeError, match=r"made by wyrm\.function"):
        wy.show(abs)  # type: ignore[arg-type]  # what is tested
