"""The exported functions that every export has, which prepare a block of memory, and those that predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.memory import address, call
from wyrm.engines.native.llvm.multiply import as_shape
from wyrm.engines.native.run.shuffle import copy
from wyrm.exporting import errors
from wyrm.exporting.embedding import Packed
from wyrm.exporting.functions import (
    RATES,
    READY,
    VERSION,
    Model,
    Module,
    check_block,
    check_data,
    check_finite,
    check_ready,
    error_of,
    input_parameters,
    length_parameters,
    place_of,
    put_columns,
    rows_of,
)
from wyrm.exporting.interface import FunctionParameter, Role
from wyrm.exporting.intrinsics import array_at, kernel, put_at, view_at
from wyrm.exporting.kernels import assign, clear, expand_float16, expand_int8
from wyrm.exporting.names import identifier
from wyrm.exporting.plan import Group, Prediction
from wyrm.exporting.runs import BATCH, ORDER, STEP_NUMBER
from wyrm.exporting.tables import fill


@dataclass(eq=False)
class Start:
    """What a block begins with: learning rates, and weights; it is `ready` without tensors that a caller writes."""

    groups: tuple[Group, ...]
    weights: tuple[Packed, ...]
    ready: bool


def define_start(module: Module, name: str, start: Start) -> None:
    """Define the functions that prepare a block."""
    module.define(
        f"{name}_init", "Prepare a block of memory of `size` bytes; tensors are 0.",
        initialize, start, FunctionParameter("size", Role.ROWS),
    )  # fmt: skip
    module.define(
        f"{name}_ready", "Check the tensors that were written to the block; call it before other functions.",
        check_tensors, None,
    )  # fmt: skip


def define_prediction(module: Module, name: str, plan: Prediction) -> None:
    """Define the function that computes the outputs of a program."""
    taken = [*(each.name for each in plan.given), *(name for each in plan.lengths for name in each.names)]
    outputs: list[FunctionParameter] = []
    for node, array, along in zip(plan.outputs, plan.run.outputs, plan.along, strict=False):
        own = identifier(node.name or plan.name, [*taken, "memory", "rows"])
        taken.append(own)
        first = bool(array.shape) and array.shape[0].value.constant is None
        shape = tuple(axis.value.constant or 0 for axis in array.shape[first or along is not None :])
        length = int(np.prod(shape, dtype=np.int64))
        entries = "" if along is None else plan.lengths[along].entries
        outputs.append(FunctionParameter(own, Role.OUTPUT, array.kind.element.dtype, shape, first, length, entries))
    rows = FunctionParameter("rows", Role.ROWS) if plan.by_rows else 1
    module.define(
        f"{name}_{plan.name}", f"Compute {', '.join(each.name for each in outputs)}.",
        predict, plan, input_parameters(plan.given, plan.lengths), length_parameters(plan.lengths), rows, outputs,
    )  # fmt: skip


@kernel
def initialize(model: Model, plan: Start, block: Any, size: int) -> int:
    """Prepare a block; return an error code."""
    if address(block[0]) == 0 or address(block[0]) & 63 != 0 or size < model.bytes:
        return errors.MEMORY
    clear(array_at(block, 0, np.uint8, (model.bytes,)))
    for i, group in enumerate(plan.groups):
        if group.schedule is None:
            array_at(block, 8 * (RATES + i), np.float64)[()] = group.initial
    for each in plan.weights:
        shape = each.rows, each.columns
        if each.scales is None:
            whole = (each.rows * each.columns,)
            packed = array_at(block, each.data, np.uint16, whole)
            expand_float16(packed, array_at(block, each.region, np.float32, whole))
        else:
            scales = array_at(block, each.scales, np.float32, (each.rows,))
            packed = array_at(block, each.data, np.int8, shape)
            expand_int8(packed, scales, array_at(block, each.region, np.float32, shape))
    if plan.ready:
        array_at(block, 8 * READY, np.int64)[()] = 1
    array_at(block, 8 * VERSION, np.int64)[()] = array_at(block, model.version, np.int64)[()]
    return errors.OK


@kernel
def check_tensors(model: Model, plan: None, block: Any) -> int:
    """Check all tensors, and allow the other functions; return an error code."""
    code = check_block(model, block)
    if code != errors.OK:
        return code
    ready = array_at(block, 8 * READY, np.int64)
    ready[()] = 0  # until all tensors are found to be good
    if not check_finite(model.floats, block):
        return errors.TENSORS
    for each in model.tensors:
        if each.counts:
            numbers = array_at(block, each.offset, np.int64, (each.count,))
            for number in numbers:
                if number < 0:
                    return errors.TENSORS
    ready[()] = 1
    return errors.OK


@kernel
def predict(model: Model, plan: Prediction, block: Any, columns: Any, lengths: Any, rows: int, outputs: Any) -> int:
    """Compute the outputs of a program; return an error code."""
    code = check_ready(model, block)
    if code != errors.OK:
        return code
    place = place_of(plan.sizes, rows) if plan.by_rows else 0
    if place < 0:
        return errors.BATCH
    for each, (_, entries) in zip(plan.lengths, lengths, strict=True):
        if entries > each.most:
            return errors.ENTRIES
    code = check_data(plan, block, columns, lengths, rows)
    if code != errors.OK:
        return code
    for along, output in zip(plan.along, outputs, strict=True):
        if address(output) == 0 and (along is None or lengths[along][1] > 0):
            return errors.ARGUMENT
    table = fill(plan.run.bound.filled, block, rows, place)
    for array, column in zip(plan.fed, columns, strict=True):
        if array is not None:
            _take(column, view_at(block, table, array))
    put_columns(plan, table, columns, lengths, rows)
    for each in plan.lengths:  # all of the same rows
        own = rows_of(each, rows)
        put_at(table, plan.run.head[ORDER], array_at(block, plan.identity, np.int64, (own,)))
        table[plan.run.head[BATCH]] = own
    if plan.counter is not None:
        counter = array_at(block, plan.counter, np.int64)
        table[plan.run.head[STEP_NUMBER]] = counter[()]
        counter[()] += 1
    status = call(plan.run.bound.entry.symbol, table)
    if status != 0:
        return error_of(model, plan.run, block, table, status)
    for array, along, output in zip(plan.run.outputs, plan.along, outputs, strict=False):
        if along is None:
            _give(view_at(block, table, array), output)
        else:
            _give(view_at(block, table, array)[: lengths[along][1]], output)
    return errors.OK


@kernel
def _take(column: Any, array: Any) -> None:
    """Copy what a caller gives to an array of the program."""
    copy(as_shape(column, (array.size,)), as_shape(array, (array.size,)))


@kernel
def _give(array: Any, output: Any) -> None:
    """Copy an array of the program, of any strides, to a caller's."""
    assign(array, as_shape(output, array.shape))
