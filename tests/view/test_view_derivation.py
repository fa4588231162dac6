"""Derivations: executing the printed lines gives the right gradients."""

from __future__ import annotations

import math
import re
import unicodedata
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
    for symbol, python in {"−": "-", "·": "*", "⊙": "*", "^": "**", "²": "**2"}.items():
        text = text.replace(symbol, python)
    text = unicodedata.normalize("NFKC", text)  # subscripts become digits
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


def lines_of(text: str) -> dict[str, str]:
    """Return the equations of both columns by their left sides."""
    found = re.findall(r"(?:^|  )([\w. ₀-₉]+) = (.+?)(?=  |$)", text, re.MULTILINE)
    return {left.strip(): right.strip() for left, right in found}


def test_products_of_matrices_are_written_as_in_a_paper() -> None:
    matrix = wy.Parameter(np.ones((2, 3), np.float32), name="W")
    vector = wy.Input(dims=(3,), name="x")
    found = lines_of(to_derivation((matrix @ vector).tanh().sum()))
    assert (found["t₁"], found["dW"], found["dx"]) == ("W x", "dt₁ xᵀ", "Wᵀ dt₁")
    assert found["dt₁"] == "dt₂ ⊙ (1 − t₂²)"
    row = lines_of(to_derivation((wy.Input(dims=(2,), name="y") @ matrix).sum()))
    assert (row["t₁"], row["dW"]) == ("y W", "y dt₁ᵀ")


def test_parameters_of_one_name_are_named_by_their_paths() -> None:
    class Batch(wy.Dim): ...

    class Model(wy.nn.Module):
        def __init__(self) -> None:
            self.first, self.second = wy.nn.Linear(4, 8), wy.nn.Linear(8, 3)

        def __call__(self, x: Any) -> Any:
            return self.second(self.first(x).relu())

    model, labels = Model(), wy.IndexInput(dims=(Batch(),), name="labels")
    # A fused loss has an operand without a gradient, which had no derivation.
    found = lines_of(to_derivation(model(wy.Input(dims=(Batch(), 4), name="x")).cross_entropy(labels)))
    assert found["t₁"] == "x first.weight" and found["d first.weight"] == "xᵀ dt₂"
    assert found["d first.bias"] == "sum(dt₂, axis=Batch)" and found["d second.weight"] == "t₃ᵀ dt₅"


def test_what_the_user_reshapes_is_written() -> None:
    x = wy.Parameter(np.ones(3, np.float32), name="x")
    found = lines_of(to_derivation((x.reshape(3, 1) * 2.0).sum()))
    assert found["t₁"].startswith("reshape(x, to=(3, ") and found["dx"] == "dt₁"


def test_show_prints_the_last_call(capsys: pytest.CaptureFixture[str]) -> None:
    @wy.function
    def energy(x: Any, labels: Any) -> Any:
        return (x @ x).mean() + x.take(labels, axis=0).sum()

    with pytest.raises(NotSet, match=r"not been called yet.*wy\.show\(.*energy, x, labels\), or call it"):
        wy.show(energy)
    wy.show(energy, np.eye(3), np.array([0, 2]))
    assert "t₁ = x x" in capsys.readouterr().out
    plain: Any = energy.function
    with pytest.raises(TypeError, match=r"write @wy\.function above it"):
        wy.show(plain)
    energy(np.eye(3), np.array([0, 2]))
    wy.show(energy)
    text = capsys.readouterr().out
    assert "t₁ = x x" in text and "dx = " in text and "dlabels" not in text and "test_view_derivation.py" in text
    both = wy.function(lambda x: (x, x))
    both(1.0)
    with pytest.raises(ShapeError, match="a single result array"):
        wy.show(both)
    with pytest.raises(TypeError, match=r"made by wyrm\.function"):
        wy.show(abs)  # type: ignore[arg-type]  # what is tested
