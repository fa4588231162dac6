"""The rules of all backends: each class that describes an op is registered."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import wyrm as wy
from wyrm.graph.loop_form import ByFlatIndex, ByKernel, Decomposed, DrawsRows, Gathered, Reduced, SameIndex, Scattered
from wyrm.graph.registration import Rules
from wyrm.ops.cross_entropy.kernels import CrossEntropyLoops
from wyrm.ops.products.product import ProductForm
from wyrm.ops.random.draws import KeyedLoops
from wyrm.ops.recurrence.recurrence import GradientLoops, ResidualsLoops
from wyrm.ops.reducing.base import ReducedAxisLoops
from wyrm.reach.rules import Leading, Windowed

for _module in pkgutil.walk_packages(wy.__path__, "wyrm."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)

REGISTRIES: dict[str, Rules[Any]] = {
    value.name: value
    for name, module in sorted(sys.modules.items())
    if name.startswith("wyrm.")
    for value in vars(module).values()
    if isinstance(value, Rules)
}
# Besides those whose names begin with an underscore.
KINDS = {ByFlatIndex, ByKernel, Decomposed, DrawsRows, Gathered, Reduced, SameIndex, Scattered}
BASE_CLASSES = {CrossEntropyLoops, ProductForm, ReducedAxisLoops, GradientLoops, ResidualsLoops, KeyedLoops, *KINDS}
BASE_CLASSES |= {Windowed}
# What another rule calls.
CALLED = {Leading}


@wy.kernel
def added(x: Any) -> Any:
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


def subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_the_registries() -> None:
    assert REGISTRIES.keys() == {"JAX", "LOOPS", "REACH"}


@pytest.mark.parametrize("rules", REGISTRIES.values(), ids=REGISTRIES)
def test_every_class_of_rules_is_registered(rules: Rules[Any]) -> None:
    added(wy.Parameter([1.0])).sum().backward()  # the rules of a kernel are registered when it is first called
    registered = {type(rule) for rule in rules._rules.values()}
    found = {cls for cls in subclasses(type(rules.default)) if cls.__module__.startswith("wyrm.")}
    bases = {cls for cls in found if cls.__name__.startswith("_") or cls in BASE_CLASSES}
    assert len(found) > 20
    assert not found - bases - registered - CALLED
    assert not {cls for cls in bases if not any(issubclass(rule, cls) for rule in registered)}
