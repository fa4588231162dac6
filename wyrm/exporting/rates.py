"""Learning rate schedules in exported code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from types import FunctionType
from typing import Any

import numpy as np

from wyrm.engines.native.ir.types import FLOAT64, INT64
from wyrm.engines.native.kernels.values import Kind, NotCompiled, NumKind
from wyrm.engines.native.products.writer import Writer
from wyrm.errors import OptionError
from wyrm.exporting.image import Image, Region
from wyrm.exporting.image import Kind as RegionKind
from wyrm.exporting.routines import Code, Entry, array_kind
from wyrm.exporting.writing import Value, address, call_kernel, double
from wyrm.optim.options import ScaledRate
from wyrm.optim.schedules import Formula, Joined


@dataclass(frozen=True)
class PlannedRate:
    """A schedule whose functions are compiled; `write` gives its value at a step, both as values of LLVM."""

    write: Callable[[Writer, str], str]


def planned(schedule: Any, code: Code, image: Image) -> PlannedRate:
    """Return a schedule or a number as code; raise `OptionError` for a function that cannot be translated."""
    if isinstance(schedule, ScaledRate):
        inner, factor = planned(schedule.schedule, code, image), schedule.factor
        return PlannedRate(lambda to, step: to.new(f"fmul double {double(factor)}, {inner.write(to, step)}"))
    if isinstance(schedule, Joined):
        return _joined(schedule, code, image)
    if isinstance(schedule, Formula):
        return _formula(type(schedule).formula, _typed(schedule), code, image, schedule)
    if callable(schedule):
        return _formula(schedule, (), code, image, schedule)
    return PlannedRate(lambda _to, _step: double(float(schedule)))


def _joined(schedule: Joined, code: Code, image: Image) -> PlannedRate:
    parts = [planned(each, code, image) for each in schedule.schedules]

    def write(to: Writer, step: str) -> str:
        found = parts[0].write(to, step)
        for boundary, part in zip(schedule.boundaries, parts[1:], strict=True):
            since = to.higher(to.subtract(step, boundary), 0)
            found = to.select(to.compare("sge", step, boundary), "double", part.write(to, since), found)
        return found

    return PlannedRate(write)


def _typed(schedule: Formula) -> tuple[Any, ...]:
    """Return the arguments of a formula, with the numbers of the types that its fields declare."""
    found: list[Any] = []
    for field, value in zip(fields(schedule), schedule.arguments, strict=True):  # type: ignore[arg-type]  # a dataclass
        declared = str(field.type)
        if declared.startswith("Sequence"):
            found.append(np.array(value, np.float64 if "float" in declared else np.int64))
        else:
            found.append(float(value) if declared == "float" else int(value))
    return tuple(found)


def _formula(function: Any, arguments: Sequence[Any], code: Code, image: Image, schedule: object) -> PlannedRate:
    """Return a function of the step and of constants as code."""
    kinds: list[Kind] = [NumKind(INT64)]
    regions: list[Region | None] = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            kinds.append(array_kind(FLOAT64 if each.dtype == np.float64 else INT64))
            regions.append(image.add(each.nbytes, RegionKind.CONSTANT, each.tobytes()))
        else:
            kinds.append(NumKind(FLOAT64 if isinstance(each, float) else INT64))
            regions.append(None)
    entry = _entry(function, tuple(kinds), code, schedule)
    integer = getattr(entry.result, "type", None) == INT64

    def write(to: Writer, step: str) -> str:
        values: list[Value] = [("i64", step)]
        for each, region in zip(arguments, regions, strict=True):
            if region is not None:
                values += [("ptr", address(to, "@data", region.offset)), ("i64", str(len(each)))]
            else:
                values.append(("double", double(each)) if isinstance(each, float) else ("i64", str(each)))
        result = call_kernel(to, entry, values, "i64" if integer else "double")
        return to.new(f"sitofp i64 {result} to double") if integer else result

    return PlannedRate(write)


def _entry(function: Any, kinds: tuple[Kind, ...], code: Code, schedule: object) -> Entry:
    try:
        if not isinstance(function, FunctionType):
            raise NotCompiled("it is no function that is written with def")
        entry = code.kernel(function, *kinds)
        if getattr(entry.result, "type", None) not in (FLOAT64, INT64):
            raise NotCompiled("it returns no number")
    except NotCompiled as error:
        raise OptionError(
            f"the learning rate {schedule!r} cannot leave Python: {error}. Use a schedule of wy.optim, or a function "
            f"of the step, written with def in a file, that uses numbers, math and names of its module alone"
        ) from None
    return entry
