"""Samples of every registered op, for the tests that run over all ops: a module for each family, with `samples()`.

A sample has the op, a function that builds it from leaves, the operands as float64, bool or integer arrays, and a NumPy
function of the expected value. Values stay away from kinks and ties, where finite differences are wrong.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import wyrm.ops
from tests.samples.sample import Sample, of_formula, start
from wyrm.graph import REGISTRY
from wyrm.ops.elementwise.elementwise import Binary, Unary

FAMILIES: list[ModuleType] = [
    importlib.import_module(f"{__name__}.{each.name}")
    for each in pkgutil.iter_modules(__path__)
    if each.name not in ("sample", "grouped")
]
SAMPLES: list[Sample] = []
for _family in FAMILIES:
    start(_family.__name__.rpartition(".")[2])
    SAMPLES += _family.samples()

for _module in pkgutil.walk_packages(wyrm.ops.__path__, "wyrm.ops."):
    importlib.import_module(_module.name)
_sampled = {sample.op for sample in SAMPLES}
# An elementwise op whose operands may be any numbers needs no sample of its own.
start("formulas")
SAMPLES += [
    sample
    for _, op in sorted(REGISTRY.items())
    if op not in _sampled and issubclass(op, Unary | Binary) and op.formula != "" and op.__module__.startswith("wyrm.")
    for sample in of_formula(op)
]
