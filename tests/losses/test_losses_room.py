from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import wyrm as wy

MODULES = [f"wyrm.losses.{module.name}" for module in pkgutil.iter_modules(wy.losses.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), extraglobs={"wy": wy, "np": np}).failed == 0


def test_every_loss_has_an_example_and_the_same_reductions() -> None:
    assert sorted(wy.losses.__all__) == list(wy.losses.__all__)
    for name in wy.losses.__all__:
        loss = getattr(wy.losses, name)
        assert ">>>" in (loss.__doc__ or ""), name
        reduction = inspect.signature(loss).parameters["reduction"]
        assert (reduction.default, reduction.kind) == ("mean", inspect.Parameter.KEYWORD_ONLY), name
