"""`import wyrm` is light: what only some programs need is imported when they need it."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import wyrm as wy

HEAVY = ["llvmlite", "numba", "jax", "scipy", "torch", "sklearn", "matplotlib", "pandas"]


def loaded_by(program: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `program`."""
    report = f"{program}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_wyrm_imports_nothing_heavy() -> None:
    loaded = loaded_by("import wyrm")
    assert "numpy" in loaded and "wyrm" in loaded
    assert not loaded.intersection(HEAVY)


def test_import_wyrm_leaves_slow_modules_of_python_alone() -> None:
    report = "import sys, numpy; before = set(sys.modules); import wyrm; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    slow = {"concurrent.futures", "difflib", "hashlib", "logging", "tempfile"}
    assert not slow.intersection(done.stdout.split())


def test_a_forward_and_a_backward_import_nothing_heavy_either() -> None:
    program = "import wyrm as wy; p = wy.Parameter([1.0, 2.0]); (p * p).tanh().softmax().sum().backward()"
    assert not loaded_by(program).intersection(HEAVY)


def test_every_public_name_is_there() -> None:
    assert [name for name in wy.__all__ if not hasattr(wy, name)] == []


DEFINED = [
    name for name in sorted(wy.__all__) if inspect.isclass(getattr(wy, name)) or inspect.isfunction(getattr(wy, name))
]


@pytest.mark.parametrize("name", DEFINED)
def test_every_public_class_and_function_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(wy, name))
