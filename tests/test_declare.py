"""The generator of stubs: what it refuses in the declarations of ops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wyrm import declare
from wyrm.errors import RegistrationError
from wyrm.ops.cross_entropy.softmax import Softmax
from wyrm.ops.products.product import MatMul


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
        declare.declarations()


def test_a_template_of_one_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Softmax, "declaration", "@overload\ndef {method}(self) -> {op}: ...")
    with pytest.raises(RegistrationError, match=r"softmax in op Softmax .* where there are several, @overload"):
        declare.declarations()
