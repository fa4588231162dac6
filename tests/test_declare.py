"""The generator of declarations: its files are up to date, a new op needs no list, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wyrm as wy
import wyrm.losses  # which lists its names in `PACKAGES`
from wyrm import declare
from wyrm.declare import functions, methods, packages
from wyrm.errors import RegistrationError
from wyrm.graph.registration import METHODS
from wyrm.ops.cross_entropy.softmax import Softmax
from wyrm.ops.products.product import MatMul
from wyrm.support.imports import PACKAGES


def test_the_generated_files_are_those_that_the_code_gives() -> None:
    stale = [path.name for path, text in declare.declarations().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"{', '.join(stale)} are out of date: run python -m wyrm.declare"


def test_a_new_op_has_its_method_its_function_and_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.graph.registration.METHODS", METHODS.copy())
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
    assert "_tests_shrink" in functions.modules()


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


@pytest.mark.parametrize(
    ("op", "name", "attribute"),
    [
        (Softmax, "softmax", "declaration"),
        (MatMul, "__matmul__", "operator_declaration"),
        (MatMul, "__rmatmul__", "reflected"),
    ],
)
def test_a_template_that_is_forgotten(
    op: type[wy.Node], name: str, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op, attribute, "")
    with pytest.raises(RegistrationError, match=rf"op {op.__name__} has the method {name} and lacks its {attribute} "):
        methods.methods()


def test_a_template_of_another_family_takes_the_options_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Softmax, "declaration", wy.Unary.declaration)
    assert "def softmax(self: Shaped[L, S], axis: int = -1) -> Softmax[L, S]:" in methods.methods()


def test_a_formula_that_no_engine_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.ops.elementwise.arithmetic.Sign.formula", "clip(x, -1.0, 1.0)")
    with pytest.raises(
        RegistrationError,
        match=r"op Sign: the formula 'clip\(x, .*' contains .*; write minimum\(maximum\(x, low\), high\)",
    ):
        declare.declarations()


_TABLE = '''"""A package."""

__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "first": "one two",
        "second": "three",
        "third": (
            "four_and_a_name_of_many_letters five_and_a_name_of_many_letters six_and_a_name_of_many_letters "
            "seven"
        ),
    },
)
'''
_FIRST = '''"""A module that the table has: what it marks is public."""

__all__ = ["unmarked", "one"]


@loss("labels")
def marked(x): ...


@loss
def _private(x): ...


def unmarked(x): ...
'''


def test_modules_add_names_to_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__init__.py").write_text(_TABLE)
    (tmp_path / "first.py").write_text(_FIRST)
    (tmp_path / "new.py").write_text('__all__ = ["Other", "New"]')
    (tmp_path / "own.py").write_text("def not_public(): ...")
    (tmp_path / "second.py").write_text("")
    (tmp_path / "third.py").write_text("")
    monkeypatch.setattr(packages, "path_of", lambda package: tmp_path / "__init__.py")
    monkeypatch.setitem(PACKAGES, "wyrm.losses", {"one": ("wyrm.losses.first", "one")})
    assert packages.new_names("wyrm.losses") == {
        "wyrm.losses.first": ["marked"],
        "wyrm.losses.new": ["New", "Other"],
    }
    table = packages.table("wyrm.losses")
    assert '        "first": "one two marked",\n        "new": "New Other",\n        "second": "three",\n' in table
    monkeypatch.setitem(PACKAGES, "wyrm.losses", {"one": ("wyrm.losses.third", "one")})
    (tmp_path / "third.py").write_text("@loss\ndef " + 90 * "e" + "(): ...")
    assert 90 * "e" + '"\n        ),\n' in packages.table("wyrm.losses")


def test_modules_of_functions_add_names_to_wyrm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "functions").mkdir()
    for name in ("functions/first", "third"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "functions" / "new.py").write_text('__all__ = ["new"]')
    (tmp_path / "__init__.py").write_text(
        _TABLE.replace('"first"', '"functions.first"').replace("second", "functions.x")
    )
    monkeypatch.setattr(packages, "path_of", lambda package: tmp_path / "__init__.py")
    monkeypatch.setitem(PACKAGES, "wyrm", {"one": ("wyrm.functions.first", "one")})
    assert packages.new_names("wyrm") == {"wyrm.functions.new": ["new"]}
    table = packages.table("wyrm")
    assert '        "functions.first": "one two",\n        "functions.new": "new",\n        "third": (' in table


def test_names_of_a_module_that_is_gone_leave_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__init__.py").write_text(_TABLE)
    for name in ("first", "third"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(packages, "path_of", lambda package: tmp_path / "__init__.py")
    table = packages.table("wyrm.losses")
    assert "second" not in table and "first" in table and "third" in table
    compile(table, "__init__.py", "exec")


def test_a_module_has_another_name_than_what_it_makes_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__init__.py").write_text(_TABLE)
    (tmp_path / "scaled.py").write_text('__all__ = ["scaled"]')
    monkeypatch.setattr(packages, "path_of", lambda package: tmp_path / "__init__.py")
    with pytest.raises(RegistrationError, match=r"cannot have the name scaled from scaled\.py: there it is the module"):
        packages.new_names("wyrm.losses")
