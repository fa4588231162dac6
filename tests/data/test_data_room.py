from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import wyrm.data

MODULES = [f"wyrm.data.{module.name}" for module in pkgutil.iter_modules(wyrm.data.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_class_and_function_has_an_example() -> None:
    assert sorted(wyrm.data.__all__) == list(wyrm.data.__all__)
    for name in wyrm.data.__all__:
        assert ">>>" in (getattr(wyrm.data, name).__doc__ or ""), name


def test_importing_loads_no_heavy_package() -> None:
    program = "import sys, wyrm.data; print([n for n in ('datasets', 'llvmlite', 'jax') if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
