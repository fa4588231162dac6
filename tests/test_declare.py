"""The generator of declarations: its files are up to date, a new op needs no list, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wyrm as wy
from wyrm import declare
from wyrm.declare import functions, methods
from wyrm.errors import RegistrationError
from wyrm.graph.binding import METHODS
from wyrm.ops.cross_entropy.softmax import Softmax
from wyrm.ops.products.product import MatMul


def test_the_generated_files_are_those_that_the_code_gives() -> None:
    stale = [path.name for path, text in declare.declarations().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"{', '.join(stale)} are out of date: run python -m wyrm.declare"


def test_a_new_op_has_its_method_its_function_and_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.graph.binding.METHODS", METHODS.copy())
    for owner in (wy.Node, wy.IndexNode):
        monkeypatch.setattr(owner, "_tests_shrink", None, raising=False)  # what is bound ends with the test
    del wy.Node._tests_shrink  # type: ignore[attr-defined]  # set above

    class Shrink(wy.Unary):
        formula = "x - tanh(x)"
        method = "_tests_shrink"
        __module__ = "wyrm.ops.elementwise.elementwise"

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * self.parents[0].tanh().square(),)

    for module in ("methods", "functions"):
        monkeypatch.setattr(f"wyrm.declare.{module}.METHODS", {("Node", "_tests_shrink"): Shrink})
    node: Any = wy.Constant(0.0)
    assert node._tests_shrink().forward() == 0.0
    assert "def _tests_shrink(self: Shaped[L, S]) -> Unary[L, S]:" in methods.methods()
    assert "_tests_shrink" in functions.names()


@pytest.mark.parametrize(
    "edited",
    [
        lambda text: "JAX.register(MatMul)(MatMulForm)\n" + text,
        lambda text: text + "from wyrm.errors import ShapeError\n",
        lambda text: text + "def {method}(self, other) -> {op}: return {op}(self, other)\n",
        lambda text: text + "@overload\ndef other(self) -> {op}: ...\n",
        lambda text: text + "def {method}(self, other) -> {op}: ...\n",
    ],
)
def test_statements_that_would_never_run(edited: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatMul, "operator_declaration", edited(MatMul.operator_declaration))
    with pytest.raises(RegistrationError, match=r"declaration of __matmul__ in op MatMul .* never runs\. Move this"):
        methods.methods()


def test_a_template_of_one_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Softmax, "declaration", "@overload\ndef {method}(self) -> {op}: ...")
    with pytest.raises(RegistrationError, match=r"softmax in op Softmax .* where there are several, @overload"):
        methods.methods()
