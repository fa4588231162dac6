"""Running a program in every engine, and what may differ: rounding, as far as it spreads in this program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import wyrm as wy
from tests.fuzz.program import Leaf, Noise, Program, Step
from wyrm.errors import ShapeError
from wyrm.graph.traversal import topological_order

Arrays = list[np.ndarray]
# How many runs with noise measure how far rounding spreads, and how many times their differences are tolerated: an
# operation rounds several times, and a sum or product of matrices once for each term. Inside an operation, numbers of
# the size of the data, about 1, may cancel.
NOISY_RUNS = 2
MARGIN = 128.0
# Arrays that noise changes by more than so many times its size are not compared: the program is unstable, or stands at
# a kink or a tie, where the changes do not shrink with the noise.
MOST_SPREAD = 300.0


class Failure(NamedTuple):
    """A difference from the reference engine: the engine, the output, and how it differs."""

    engine: str
    kind: str
    message: str
    rows: int = 0
    tolerance: float = 1e-6

    def like(self, other: Failure | None) -> bool:
        """Return whether the other failure may have the same cause."""
        return other is not None and (self.engine, self.kind) == (other.engine, other.kind)


class Expected(NamedTuple):
    """What a run should compute: the arrays, and for each the largest difference by rounding; None if it is unstable.

    Without arrays, the run should raise an error, as a mean over no rows does.
    """

    arrays: Arrays
    tolerances: list[float | None]
    error: wy.WyrmError | None = None


def reference(program: Program, rows: int, noise: tuple[int, float] | None = None) -> Arrays:
    """Return what the reference engine computes in a graph of its own for this number of rows."""
    source = None if noise is None else Noise(*noise)
    graph = program.graph(rows, source)
    graph.feed(rows)
    wy.random.set_step(0)
    with np.errstate(all="ignore"):
        return wy.run(graph.outputs)


def expected(program: Program, rows: int, precision: float) -> Expected:
    """Return the arrays of the reference engine, and how far rounding may change them.

    Runs in which each value is changed by a factor close to 1 show how far the change of a value spreads. Rounding
    changes each value by far less, and spreads like the noise.
    """
    try:
        arrays = reference(program, rows)
    except wy.WyrmError as error:
        return Expected([], [], error)
    size = precision**0.5
    noisy = [reference(program, rows, (seed, size)) for seed in range(NOISY_RUNS)]
    tolerances: list[float | None] = []
    with np.errstate(all="ignore"):
        for i, array in enumerate(arrays):
            tolerances.append(_tolerance(array, [run[i] for run in noisy], size, precision))
    return Expected(arrays, tolerances)


def precision_of(program: Program) -> float:
    """Return the distance from 1 to the next number, in the shortest float type that the program computes in."""
    dtypes = {node.dtype for node in topological_order(program.graph().outputs) if node.dtype.kind == "f"}
    return max((float(np.finfo(dtype).eps) for dtype in dtypes), default=0.0)


def _tolerance(array: np.ndarray, noisy: Arrays, size: float, precision: float) -> float | None:
    if array.dtype.kind != "f":
        return 0.0 if all(np.array_equal(array, other) for other in noisy) else None
    if any(array.shape != other.shape for other in noisy):
        return None
    largest = max(1.0, float(np.abs(array).max(initial=0.0)))
    spread = max(float(np.abs(array - other).max(initial=0.0)) for other in noisy) / size
    return MARGIN * precision * (spread + largest) if spread <= MOST_SPREAD * largest else None


def failure(program: Program, engines: Sequence[str], most_rows: int = 99) -> Failure | None:
    """Return the first failure of a program: what engines compute, NumPy's values and the gradients; None if none."""
    return next(failures(program, engines, most_rows), None)


def failures(program: Program, engines: Sequence[str], most_rows: int = 99) -> Iterator[Failure]:
    precision = precision_of(program)
    cases = {rows: expected(program, rows, precision) for rows in program.rows[:most_rows]}
    rows = next((rows for rows, case in cases.items() if case.error is None), None)
    if rows is not None:
        yield from _against_numpy(program, rows)
        if program.order and precision == np.finfo(np.float64).eps and "step" not in program.tags:
            yield from _against_differences(program, rows, cases[rows])
    for engine in ("reference", *engines):
        yield from _of_engine(program, engine, cases)


def _of_engine(program: Program, engine: Any, cases: dict[int, Expected]) -> Iterator[Failure]:
    """Yield the differences of one graph, or one program, that is run with every number of rows."""
    graph = program.graph()
    run: Any = None
    for rows, case in cases.items():
        data = graph.feed(rows)
        wy.random.set_step(0)
        try:
            with np.errstate(all="ignore"):
                if engine == "reference":
                    found = wy.run(graph.outputs)
                else:
                    run = run or wy.compile(graph.outputs, engine=engine)
                    found = run(data)
        except Exception as error:
            if case.error is not None and isinstance(error, wy.WyrmError):
                continue
            # A slice of an axis without a size has as many elements less in every run: it is never cut short.
            if isinstance(error, ShapeError) and "elements; the axis has" in str(error):
                continue
            kind = f"{type(error).__name__}: {str(error).split(chr(10))[0][:200]}"
            yield Failure(engine, type(error).__name__, f"with {rows} rows raises {kind}", rows)
            return
        if case.error is not None:
            yield Failure(engine, "no error", f"with {rows} rows: the reference engine raises {case.error}", rows)
            continue
        for name, want, have, tolerance in zip(graph.names, case.arrays, found, case.tolerances, strict=True):
            message = _difference(want, np.asarray(have), tolerance)
            if have.dtype != want.dtype:
                message = f"{have.dtype} instead of {want.dtype}"
            if message:
                relative = (tolerance or 0.0) / max(1.0, float(np.abs(want).max(initial=0.0)))
                yield Failure(engine, "value", f"{name} with {rows} rows: {message}", rows, relative)


def _difference(want: np.ndarray, have: np.ndarray, tolerance: float | None) -> str:
    if have.dtype.kind != want.dtype.kind or have.shape != want.shape:
        return f"{have.dtype} {have.shape} instead of {want.dtype} {want.shape}"
    if tolerance is None or not want.size:
        return ""
    if want.dtype.kind != "f":
        return "" if np.array_equal(want, have) else f"{have.tolist()} instead of {want.tolist()}"
    off = float(np.abs(have - want).max())
    return "" if off <= tolerance else f"off by {off:.3g}, {tolerance:.3g} is rounding: {have} instead of {want}"


def _against_numpy(program: Program, rows: int) -> Iterator[Failure]:
    """Compare each step of NumPy's functions with what they compute from the arrays of its operands."""
    graph = program.graph(rows)
    graph.feed(rows)
    wy.random.set_step(0)
    with np.errstate(all="ignore"):
        arrays = wy.run(graph.nodes)
        for i, part in enumerate(program.parts):
            if not isinstance(part, Step) or "numpy" not in part.production.tags:
                continue
            operands = [arrays[position] for position in part.operands]
            want = np.asarray(part.production.build(**part.arguments(operands)))
            precision = float(np.finfo(arrays[i].dtype).eps) if arrays[i].dtype.kind == "f" else 0.0
            largest = max(float(np.abs(array).max(initial=0.0)) for array in (want, *operands))
            terms = max(array.size for array in operands)
            message = _difference(want, arrays[i], MARGIN * precision * terms * max(largest, largest**2))
            if message:
                yield Failure("numpy", part.production.name, f"part {i}, {part.production.name}: {message}", rows)


def _against_differences(program: Program, rows: int, case: Expected) -> Iterator[Failure]:
    """Compare the gradients of each order with finite differences of the order before, along a random direction."""
    if any(tolerance is None for tolerance in case.tolerances):
        return
    random = np.random.default_rng(0)
    leaves = [i for i, part in enumerate(program.parts) if isinstance(part, Leaf) and part.array.dtype.kind == "f"]
    shifts = {i: random.choice([-1.0, 1.0], _leaf(program, i).array.shape) for i in leaves}

    def along(distance: float, order: int) -> float:
        parts = list(program.parts)
        for i, shift in shifts.items():
            leaf = _leaf(program, i)
            parts[i] = replace(leaf, array=leaf.array + distance * shift)
        arrays = reference(replace(program, parts=tuple(parts), order=order), rows)
        level = arrays[len(program.outputs) :][-len(leaves) :] if order else arrays
        return float(sum(np.sum(array * np.sin(array)) for array in level if array.dtype.kind == "f"))

    for order in range(program.order):
        start = len(program.outputs) + order * len(leaves)
        step = 1e-4
        near = (along(step, order) - along(-step, order)) / (2 * step)
        far = (along(2 * step, order) - along(-2 * step, order)) / (4 * step)
        terms = [
            gradient * Leaf(_leaf(program, i).dims, shift).data(rows)
            for gradient, (i, shift) in zip(case.arrays[start:], shifts.items(), strict=False)
        ]
        found, scale = (float(sum(np.sum(f(term)) for term in terms)) for f in (np.asarray, np.abs))
        scale = max(scale, abs(near), 1.0)
        measured = (4 * near - far) / 3
        if abs(near - far) < 1e-4 * scale and not abs(measured - found) <= 1e-5 * scale:
            what = f"the gradient of order {order + 1} along a direction is {found:.9g}"
            message = f"with {rows} rows: {what}, finite differences give {measured:.9g}"
            yield Failure("differences", "gradient", message, rows)
            return


def _leaf(program: Program, position: int) -> Leaf:
    part = program.parts[position]
    assert isinstance(part, Leaf)
    return part
