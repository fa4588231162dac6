"""The exported functions of a training: an epoch, a step, and the learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.engines.native.kernels.memory import address, call
from wyrm.engines.native.llvm.multiply import as_shape
from wyrm.engines.native.run.shuffle import PLACES, copy, count_up, shuffle
from wyrm.exporting import errors
from wyrm.exporting.functions import (
    RATES,
    Model,
    Module,
    check_block,
    check_data,
    check_finite,
    check_ready,
    compute,
    error_of,
    input_parameters,
    length_parameters,
    place_of,
    put_columns,
)
from wyrm.exporting.interface import FunctionParameter, Role
from wyrm.exporting.intrinsics import array_at, kernel, put_at
from wyrm.exporting.kernels import clear, epoch_seed, most_entries
from wyrm.exporting.numbers import rate_at
from wyrm.exporting.plan import CHUNK, Group, Training
from wyrm.exporting.runs import COUNT, FIRST, NUMBERS, ORDER, STEP_NUMBER, TOTALS
from wyrm.exporting.tables import fill


def define_training(module: Module, training: Training, name: str) -> None:
    """Define the functions of a training."""
    inputs, lengths = input_parameters(training.given, training.lengths), length_parameters(training.lengths)
    rows, batch = FunctionParameter("rows", Role.ROWS), FunctionParameter("batch", Role.BATCH)
    order, results = FunctionParameter("order", Role.ORDER), FunctionParameter("results", Role.RESULTS)
    module.define(
        f"{name}_epoch",
        "Train on all rows once, in batches; shuffled by the seed and the number of epochs unless shuffle is 0.",
        epoch, training, inputs, lengths, rows, batch, FunctionParameter("shuffle", Role.FLAG),
        FunctionParameter("seed", Role.SEED), order, results, results=training.names,
    )  # fmt: skip
    module.define(
        f"{name}_step",
        "Do one step on a batch of rows.",
        step,
        training,
        inputs,
        lengths,
        batch,
        results,
        results=training.names,
    )
    if any(group.schedule is None for group in training.groups):
        module.define(
            f"{name}_set_learning_rate", "Set the learning rate of the next steps; it is not among the tensors.",
            set_learning_rate, training, FunctionParameter("rate", Role.NUMBER),
        )  # fmt: skip


# --- the exported functions -------------------------------------------------------------------------------------------


@kernel
def epoch(
    model: Model, plan: Training, block: Any, columns: Any, lengths: Any, rows: int, batch: int, shuffles: int,
    seed: int, order: Any, results: Any,
) -> int:  # fmt: skip
    """Train on all rows once; return an error code."""
    if rows < 1 or rows >= 2**31 or address(order) == 0 or seed < 0:
        return errors.ARGUMENT
    code = _check(model, plan, block, columns, lengths, rows, batch, results)
    if code != errors.OK:
        return code
    if rows % batch > 0 and place_of(model.sizes, rows % batch) < 0:
        return errors.BATCH
    places = as_shape(order, (rows,))
    count_up(places, 0)
    epochs = array_at(block, plan.epochs, np.int64)
    if shuffles != 0:
        own = epoch_seed(seed, epochs[()], array_at(block, plan.scratch, np.uint64, (8,)))
        shuffle(places, own, array_at(block, plan.scratch, np.uint64, (PLACES,)))
    code = _train(model, plan, block, columns, lengths, rows, batch, places, results)
    if code == errors.OK:
        epochs[()] += 1
    return code


@kernel
def step(model: Model, plan: Training, block: Any, columns: Any, lengths: Any, batch: int, results: Any) -> int:
    """Do one step on a batch; return an error code."""
    code = _check(model, plan, block, columns, lengths, batch, batch, results)
    if code != errors.OK:
        return code
    order = array_at(block, plan.identity, np.int64, (batch,))
    return _train(model, plan, block, columns, lengths, batch, batch, order, results)


@kernel
def set_learning_rate(model: Model, plan: Training, block: Any, rate: float) -> int:
    """Set the rate of all groups without a schedule or a rate of their own; return an error code."""
    code = check_block(model, block)
    if code != errors.OK:
        return code
    if not 0.0 <= rate < np.inf:
        return errors.ARGUMENT
    for i, group in enumerate(plan.groups):
        if group.factor is not None:
            array_at(block, 8 * (RATES + i), np.float64)[()] = rate * group.factor
    return errors.OK


@kernel
def _check(
    model: Model, plan: Training, block: Any, columns: Any, lengths: Any, rows: int, batch: int, results: Any
) -> int:
    code = check_ready(model, block)
    if code != errors.OK:
        return code
    if address(results) == 0:
        return errors.ARGUMENT
    if place_of(model.sizes, batch) < 0:
        return errors.BATCH
    return check_data(plan, block, columns, lengths, rows)


@kernel
def _train(
    model: Model, plan: Training, block: Any, columns: Any, lengths: Any, rows: int, batch: int, order: Any,
    results: Any,
) -> int:  # fmt: skip
    """Do the steps of all rows in this order, and write their outputs; an error leaves the tensors as they were."""
    for each, (offsets, _) in zip(plan.lengths, lengths, strict=True):
        if most_entries(as_shape(offsets, (rows + 1,)), order, batch) > each.most:
            return errors.ENTRIES
    tensors = array_at(block, model.first, np.uint8, (plan.snapshot.size,))
    snapshot = array_at(block, plan.snapshot, np.uint8, (plan.snapshot.size,))
    copy(tensors, snapshot)
    totals = _totals(plan, block)[1 + len(plan.sums) :]
    clear(totals)
    code, done = errors.OK, 0
    while done < rows and code == errors.OK:
        size = min(batch, rows - done)
        count = (rows - done) // size
        code = _steps(model, plan, block, columns, lengths, rows, size, count, order[done:])
        done += count * size
    if code == errors.OK and not check_finite(model.changed, block):
        code = errors.DIVERGED
    if code == errors.OK:
        parts = tuple(totals[i] if is_sum else totals[i] / float(rows) for i, is_sum in enumerate(plan.sums))
        compute(plan.means, block, parts, as_shape(results, (len(plan.means.results),)))
    else:
        copy(snapshot, tensors)
    return code


@kernel
def _totals(plan: Training, block: Any) -> Any:
    """Return the totals of some steps, with their number behind the first one, and those of all rows behind them."""
    return array_at(block, plan.totals, np.float64, (1 + 2 * len(plan.sums),))


# --- steps ------------------------------------------------------------------------------------------------------------


@kernel
def _steps(
    model: Model, plan: Training, block: Any, columns: Any, lengths: Any, rows: int, batch: int, count: int, order: Any
) -> int:
    """Do `count` steps on batches of one size, whose rows `order` has, and add up the outputs; return an error code."""
    run = plan.run
    table = fill(run.bound.filled, block, batch, place_of(model.sizes, batch))
    put_at(table, run.head[ORDER], as_shape(order, (count * batch,)))
    put_columns(plan, table, columns, lengths, rows)
    totals = _totals(plan, block)
    put_at(table, run.head[TOTALS], totals[: 1 + len(plan.sums)])
    table[run.head[STEP_NUMBER]] = array_at(block, plan.steps, np.int64)[()]
    if not plan.vary:
        _numbers(plan, block, min(count, CHUNK))
    done = 0
    while done < count:
        now = min(count - done, CHUNK)
        if plan.vary:
            _numbers(plan, block, now)
        table[run.head[FIRST]] = done
        table[run.head[COUNT]] = now
        put_at(table, run.head[NUMBERS], array_at(block, plan.step_rows, np.float64, (now, plan.numbers)))
        clear(totals[: 1 + len(plan.sums)])
        status = call(run.bound.entry.symbol, table)
        finished = int(totals[1])
        _add(plan, block, totals, finished, float(batch))
        if status != 0:
            return error_of(model, run, block, table, status)
        if finished < now:
            error_of(model, run, block, table, status)
            return errors.DIVERGED
        done += now
    return errors.OK


@kernel
def _add(plan: Training, block: Any, totals: Any, finished: int, batch: float) -> None:
    """Add the totals of some steps to those of all rows, and count the steps."""
    for i, is_sum in enumerate(plan.sums):
        found = totals[i + 1 if i > 0 else 0]
        totals[1 + len(plan.sums) + i] += found if is_sum else found * batch
    array_at(block, plan.steps, np.int64)[()] += finished
    array_at(block, plan.optimizer_steps, np.int64)[()] += finished
    for i in plan.trained:
        array_at(block, plan.counts.offset + 8 * i, np.int64)[()] += finished


@kernel
def _numbers(plan: Training, block: Any, count: int) -> None:
    """Write the numbers of the next steps."""
    if plan.numbers > 0:
        rows = array_at(block, plan.step_rows, np.float64, (count, plan.numbers))
        for ahead in range(count):
            given = (
                *tuple(_next_step(group, plan, block, ahead) for group in plan.groups),
                *tuple(_rate(group, i, plan, block, ahead) for i, group in enumerate(plan.groups)),
            )
            compute(plan.of_steps, block, given, rows[ahead])


@kernel
def _next_step(group: Group, plan: Training, block: Any, ahead: int) -> float:
    """Return the number of the step of a group that comes when `ahead` others are done."""
    return float(array_at(block, plan.counts.offset + 8 * group.first, np.int64)[()] + ahead + 1)


@kernel
def _rate(group: Group, position: int, plan: Training, block: Any, ahead: int) -> float:
    """Return the learning rate of that step."""
    if group.schedule is None:
        return float(array_at(block, 8 * (RATES + position), np.float64)[()])
    return rate_at(group.schedule, block, array_at(block, plan.optimizer_steps, np.int64)[()] + ahead)
