from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import wyrm.metrics

MODULES = [f"wyrm.metrics.{module.name}" for module in pkgutil.iter_modules(wyrm.metrics.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_function_has_an_example() -> None:
    assert sorted(wyrm.metrics.__all__) == list(wyrm.metrics.__all__)
    for name in wyrm.metrics.__all__:
        assert ">>>" in (getattr(wyrm.metrics, name).__doc__ or ""), name
