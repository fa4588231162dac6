"""Engines do not name ops: they use the ops' declarations and the rules registered for them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wyrm
from wyrm.graph import REGISTRY, BaseNode, IndexNode, Node
from wyrm.graph.storage import Leaf

ROOT = Path(wyrm.__file__).parent
ROOMS = ("engines", "train")
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def names_an_op(value: Any) -> bool:
    """Whether a value is an op class, or a base class of ops."""
    if not (isinstance(value, type) and issubclass(value, BaseNode)) or issubclass(value, Leaf):
        return False
    return value not in (BaseNode, Node, IndexNode) and any(issubclass(op, value) for op in REGISTRY.values())


def imported(tree: ast.AST) -> Iterator[tuple[str, str, Any]]:
    """Yield what the imports of a file bind: the local name, the origin, and the value."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name.partition(".")[0] == "wyrm":
                    module = importlib.import_module(alias.name)
                    yield alias.asname or alias.name, alias.name, module if alias.asname else wyrm
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "wyrm":
            assert statement.module is not None
            module = importlib.import_module(statement.module)
            for alias in statement.names:
                origin = f"{statement.module}.{alias.name}"
                value = getattr(module, alias.name, None)
                yield alias.asname or alias.name, origin, importlib.import_module(origin) if value is None else value


def ops_in(text: str) -> list[str]:
    """Return the ops that a file names, by importing them or as attributes of an imported module."""
    tree = ast.parse(text)
    bound = list(imported(tree))
    found = [origin for _, origin, value in bound if names_an_op(value)]
    modules = {name: value for name, _, value in bound if isinstance(value, ModuleType)}
    for part in ast.walk(tree):
        if isinstance(part, ast.Attribute):
            value = _part_of_module(part, modules)
            found += [f"{value.__module__}.{value.__qualname__}"] if names_an_op(value) else []
    return found


def _part_of_module(part: ast.AST, modules: dict[str, ModuleType]) -> Any:
    """Return the value of an expression such as `module.part.name`, given the modules by name; None if unknown."""
    if isinstance(part, ast.Name):
        return modules.get(part.id) or (wyrm if part.id == "wyrm" else None)
    if isinstance(part, ast.Attribute):
        whole = _part_of_module(part.value, modules)
        return getattr(whole, part.attr, None) if isinstance(whole, ModuleType) else None
    return None


def test_there_are_engines() -> None:
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_engine_names_an_op(path: Path) -> None:
    named = ops_in(path.read_text(encoding="utf-8"))
    assert not named, f"use the op's declarations or a registered rule instead of importing {', '.join(named)}"


@pytest.mark.parametrize(
    "text",
    [
        "from wyrm.ops.shaping.shape import Reshape",
        "from wyrm.ops.shaping.shape import Reshape as R, aligned_index",
        "from wyrm.ops.shaping.shape import Rearrangement",
        "from wyrm.graph.index_operands import HasIndexOperands",
        "def later():\n    from wyrm.ops.control.scan import Scan",
        "from wyrm.ops.shaping import shape\nshape.Reshape",
        "import wyrm.ops.shaping.shape as shapes\nshapes.Reshape",
        "import wyrm.ops.shaping.shape\nisinstance(x, wyrm.ops.shaping.shape.Reshape)",
        "from wyrm.ops import shaping\nshaping.shape.Reshape",
    ],
)
def test_an_op_that_is_named_is_found(text: str) -> None:
    assert len(ops_in(text)) == 1


def test_leaves_functions_and_data_may_be_imported() -> None:
    assert not ops_in(
        "from wyrm.graph import Constant, IndexInput, Node, Parameter\n"
        "from wyrm.ops.random.philox import STEP\n"
        "from wyrm.ops.control.loop_body import Iteration\n"
        "from wyrm.ops.control.updating import updates_of\n"
        "import wyrm.ops.products.product as product\nproduct.multiply_into\n"
    )
