from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import wyrm as wy

MODULES = [f"wyrm.nn.{module.name}" for module in pkgutil.iter_modules(wy.nn.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    wy.nn.seed(0)
    assert doctest.testmod(importlib.import_module(name), extraglobs={"wy": wy, "np": np}).failed == 0


def test_every_public_class_has_an_example() -> None:
    assert sorted(wy.nn.__all__) == list(wy.nn.__all__)
    for name in wy.nn.__all__:
        public = getattr(wy.nn, name)
        if isinstance(public, type):
            assert ">>>" in (public.__doc__ or ""), name


def test_importing_loads_no_heavy_package() -> None:
    heavy = "('llvmlite', 'jax', 'scipy.stats', 'safetensors', 'torch')"
    program = f"import sys, wyrm.nn; print([n for n in {heavy} if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
