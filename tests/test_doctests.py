"""The examples in docstrings, run with `wy` and `np` defined."""

from __future__ import annotations

import doctest
import importlib
import io
import pkgutil
import sys
from types import ModuleType

import numpy as np
import pytest

import wyrm as wy

NAMES = (module.name for module in pkgutil.walk_packages(wy.__path__, "wyrm."))
MODULES = sorted(["wyrm", *(name for name in NAMES if "__main__" not in name)])


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, "examples", ModuleType("examples"))  # where a dataclass looks for its annotations
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report = io.StringIO()
    # An op that an example defines registers under this name, not as an op of wyrm.
    for test in finder.find(module, name, module, extraglobs={"wy": wy, "np": np, "__name__": "examples"}):
        runner.run(test, out=report.write)
    assert runner.failures == 0, report.getvalue()


def test_there_are_examples_to_run() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) > 50
