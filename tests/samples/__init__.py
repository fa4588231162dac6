"""Samples of every registered op, for the tests that run over all ops: a module for each family, with `samples()`.

A sample has the op, a function that builds it from leaves, the operands as float64, bool or integer arrays, and a NumPy
function of the expected value. Values stay away from kinks and ties, where finite differences are wrong.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import wyrm.ops
from tests.samples import (
    attention,
    channel_norms,
    control,
    convolution,
    cross_entropy,
    ctc,
    cumulative,
    drawing,
    elementwise,
    fused,
    gather,
    gru,
    indexing,
    integers,
    label,
    linalg,
    linear_cross_entropy,
    lstm,
    normalization,
    pass_through,
    pooling,
    prod,
    products,
    random,
    reducing,
    segment,
    shaping,
    sorting,
    special,
    special_order,
)
from tests.samples.sample import Sample, of_formula
from wyrm.graph import REGISTRY
from wyrm.ops.elementwise.elementwise import Binary, Unary

# In this order: the values of a family depend on how many were drawn before.
FAMILIES: list[ModuleType] = [
    elementwise,
    reducing,
    cumulative,
    integers,
    sorting,
    gather,
    prod,
    random,
    products,
    shaping,
    indexing,
    cross_entropy,
    drawing,
    special,
    lstm,
    gru,
    segment,
    ctc,
    label,
    attention,
    linalg,
    linear_cross_entropy,
    normalization,
    fused,
    convolution,
    pooling,
    control,
    special_order,
    pass_through,
    channel_norms,
]
# Then those of any other modules.
_names = {f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)}
_names -= {family.__name__ for family in FAMILIES} | {f"{__name__}.sample", f"{__name__}.grouped"}
FAMILIES += map(importlib.import_module, sorted(_names))
SAMPLES: list[Sample] = [sample for family in FAMILIES for sample in family.samples()]

for _module in pkgutil.walk_packages(wyrm.ops.__path__, "wyrm.ops."):
    importlib.import_module(_module.name)
_sampled = {sample.op for sample in SAMPLES}
# An elementwise op whose operands may be any numbers needs no sample of its own.
SAMPLES += [
    sample
    for _, op in sorted(REGISTRY.items())
    if op not in _sampled and issubclass(op, Unary | Binary) and op.formula != "" and op.__module__.startswith("wyrm.")
    for sample in of_formula(op)
]
