from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import wyrm as wy

MODULES = [f"wyrm.io.{module.name}" for module in pkgutil.iter_modules(wy.io.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), extraglobs={"wy": wy, "np": np}).failed == 0


def test_every_public_function_has_an_example() -> None:
    assert sorted(wy.io.__all__) == list(wy.io.__all__)
    for name in ("PretrainedTokenizer", "load", "load_arrays", "save", "save_arrays", "tokenizer"):
        assert ">>>" in (getattr(wy.io, name).__doc__ or ""), name
