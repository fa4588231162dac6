"""Fingerprints, the cache keys of functions: different functions have different ones."""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.functions import fingerprint, global_names

KNOWN: Any = None


def _uses(x: Any) -> Any:
    return x.astype(KNOWN)


def _with(value: Any) -> str:
    return fingerprint(FunctionType(_uses.__code__, {"KNOWN": value}, "_uses"))


def test_the_value_of_a_module_constant_counts() -> None:
    values = [1, 1.0, True, 2, (1, 2), np.float32(1.0), np.float32, np.float64, np.dtype("f4"), "text", "other", None]
    assert len({_with(value) for value in values}) == len(values)
    assert _with(np.float32) == _with(np.float32)


def test_objects_without_a_stable_repr_count_by_type() -> None:
    assert _with(object()) == _with(object())


@dataclass(frozen=True)
class Constant:
    """A constant whose repr has an address."""

    number: int
    other: object


def test_the_fields_of_a_dataclass_count() -> None:
    assert _with(Constant(1, object())) == _with(Constant(1, object())) != _with(Constant(2, object()))


def _generates(x: Any) -> Any:
    return tuple(each.astype(KNOWN) for each in x)


def test_generators_inside_count() -> None:
    def text(value: Any) -> str:
        return fingerprint(FunctionType(_generates.__code__, {"KNOWN": value}, "_generates"))

    assert text(np.float32) == text(np.float32) != text(np.float64)
    assert " at 0x" not in text(np.float32)


def test_functions_that_are_called_count() -> None:
    def doubled(x: Any) -> Any:
        return x * 2

    def tripled(x: Any) -> Any:
        return x * 3

    assert _with(doubled) != _with(tripled)


def many_names() -> Any:
    """Return a function that reads a thousand global names, and attributes of the same names."""
    names = [f"name_{i}" for i in range(1000)]
    code = f"def reads():\n    return [{', '.join(f'{name}.{name}' for name in names)}]"
    found: dict[str, Any] = {}
    exec(code, found)  # a text of our own
    return found["reads"]


def test_global_names_are_those_of_the_bytecode() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("wyrm.ops.")]
    functions = [each for module in modules for each in vars(module).values() if isinstance(each, FunctionType)]
    assert len(functions) > 500
    for function in [*functions, many_names()]:
        read = [each.argval for each in dis.get_instructions(function) if each.opname == "LOAD_GLOBAL"]
        assert list(global_names(function.__code__)) == list(dict.fromkeys(read))
