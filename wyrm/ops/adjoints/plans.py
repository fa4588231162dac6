"""Kernels as ops: from the arrays of a call to all arguments of a kernel, and the plan of its gradient."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis
from wyrm.graph.shapes import total_size
from wyrm.graph.typing import Array
from wyrm.ops.adjoints.derived import Derived, adjoint, compiled, value
from wyrm.ops.adjoints.program import Kind
from wyrm.ops.kernels.native import scratch

_DTYPES: dict[str, Any] = {"f8": np.float64, "f4": np.float32, "i": np.int64, "b": np.bool_}
# The numbers that a tape holds where only running the kernel tells how many it needs, unless the kernel says another.
ROOM = 1 << 16
# The axes of a result: of an operand, by its position and the axis, or a number.
Shape = tuple[tuple[int, int] | int, ...]


@dataclass(frozen=True)
class Operand:
    """An operand: the kernel's parameter, what that holds, and how many axes the operand has."""

    name: str
    kind: Kind
    axes: int


class Plan:
    """A kernel whose arguments are arrays: operands, which it only reads, memory of its own, and results.

    `function` takes the operands, fixed numbers, memory, and the results, which it fills. `operands` are their kinds,
    `outputs` the axes of the results.
    """

    name: str
    function: Callable[..., Any]
    operands: tuple[Operand, ...]
    outputs: tuple[Shape, ...]
    # What the kernel is, for readers.
    source: str
    # The kinds of all parameters, for the next derivative, and which of them are operands and results.
    kinds: tuple[Kind, ...]
    places_of_operands: tuple[int, ...]
    places_of_outputs: tuple[int, ...]
    room: int
    # How many times it was differentiated.
    order: int = 0

    def arguments(self, operands: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        """Return the arguments of the kernel for these arrays."""
        raise NotImplementedError

    def shapes(self, sizes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the axes of the results for those of the operands, or their sizes for theirs."""
        return [
            tuple(each if isinstance(each, int) else sizes[each[0]][each[1]] for each in shape)
            for shape in self.outputs
        ]

    def packed(self, dims: Sequence[Sequence[Axis]]) -> Axis:
        """Return the axis of all results one after the other."""
        return total_size(self.shapes(dims))

    def run(self, operands: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Fill the results in Python."""
        self.function(*self.arguments(operands, outputs))


def _filled(text: str, axes: int, value: str) -> str:
    """Return the statements that set all elements of an array; `value` may use the index `[...]`."""
    indices = [f"at_{i}" for i in range(axes)]
    lines = [f"{'    ' * i}for {each} in range({text}.shape[{i}]):" for i, each in enumerate(indices)]
    inside = ", ".join(indices)
    return "\n".join([*lines, f"{'    ' * axes}{text}[{inside}] = {value.replace('[...]', f'[{inside}]')}"])


def _made(name: str, parameters: Sequence[str], body: str, space: dict[str, Any], module: str) -> tuple[Any, str]:
    source = f"def {name}({', '.join(parameters)}):\n" + textwrap.indent(body or "pass", "    ") + "\n"
    function = compiled(source, space, module)
    return function, source


class ValuePlan(Plan):
    """The results of a user's kernel: the numbers that it returns, then the arrays that it writes.

    `fixed`: the numbers that a call gave in place of operands, by parameter. `results`: the axes of the arrays that the
    kernel writes, which are its last parameters.
    """

    def __init__(
        self, function: Callable[..., Any], operands: Sequence[Operand], fixed: dict[str, float | int | bool],
        results: dict[str, Shape], dtype: str, room: int,
    ) -> None:  # fmt: skip
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        by_name = {each.name: each for each in operands}
        self.inner_kinds = [_kind_of_parameter(each, by_name, fixed, results, dtype) for each in names]
        self.derived: Derived = value(function, self.inner_kinds)
        self.names, self.fixed, self.room = names, fixed, room
        self.name, self.operands, self.dtype = function.__name__, tuple(operands), dtype
        self.outputs = (*[()] * self.derived.results, *results.values())
        numbers = [f"number_{i}" for i in range(self.derived.results)]
        parameters = [*names, *self.derived.scratch, *numbers]
        body = [_filled(each, len(shape), "0.0") for each, shape in results.items()]
        scalars = {each.name for each in operands if each.axes == 0}
        given = [f"{each}[0]" if each in scalars else each for each in (*names, *self.derived.scratch)]
        call = f"{self.derived.function.__name__}({', '.join(given)})"
        if numbers:
            call = f"{', '.join(f'r_{i}' for i in range(len(numbers)))} = {call}"
        body += [call, *(f"{each}[0] = r_{i}" for i, each in enumerate(numbers))]
        space = {self.derived.function.__name__: self.derived.function}
        self.function, self.source = _made(f"{self.name}_op", parameters, "\n".join(body), space, function.__module__)
        kinds = dict(zip(names, self.inner_kinds, strict=True))
        self.kinds = (
            *(Kind(kinds[each].type, 1) if each in scalars else kinds[each] for each in names),
            *self.derived.kinds_of_scratch, *[Kind(dtype, 1)] * len(numbers),
        )  # fmt: skip
        self.places_of_operands = tuple(names.index(each.name) for each in operands)
        first = len(names) + len(self.derived.scratch)
        self.places_of_outputs = (*range(first, first + len(numbers)), *(names.index(each) for each in results))

    def arguments(self, operands: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        count = self.derived.results
        arrays = dict(zip([each.name for each in self.operands], operands, strict=True))
        written = [each for each in self.names if each not in arrays and each not in self.fixed]
        arrays |= dict(zip(written, outputs[count:], strict=True))
        given = [self.fixed[each] if each in self.fixed else _at_least_one_axis(arrays[each]) for each in self.names]
        shapes = self.derived.sizer(*given)
        kinds = self.derived.kinds_of_scratch
        made = [scratch(shape, _DTYPES[kind.type]) for shape, kind in zip(shapes, kinds, strict=True)]
        return [*given, *made, *(each.reshape(1) for each in outputs[:count])]


def _at_least_one_axis(array: Array) -> Array:
    return array if array.ndim else array.reshape(1)


def _kind_of_parameter(
    text: str, operands: dict[str, Operand], fixed: dict[str, float | int | bool], results: dict[str, Shape], dtype: str
) -> Kind:
    if text in operands:
        return operands[text].kind
    if text in fixed:
        found = fixed[text]
        return Kind("b" if isinstance(found, bool) else "i" if isinstance(found, int) else "f8")
    return Kind(dtype, len(results[text]))


class GradientPlan(Plan):
    """The gradients of a plan with respect to its operands of floats.

    The operands are those of the plan, and the cotangents of the results at the positions `seeded`, on which the
    gradients depend.
    """

    def __init__(self, plan: Plan) -> None:
        code = plan.function.__code__
        names = code.co_varnames[: code.co_argcount]
        self.plan, self.room, self.names = plan, plan.room, names
        self.name = f"{plan.name}_gradient"
        self.order = plan.order + 1
        own, seed = f"c{self.order}_", f"given{self.order}_"  # names that a plan of a lower order does not have
        self.wanted = [i for i, each in enumerate(plan.operands) if each.kind.is_float]
        wrt = [names[plan.places_of_operands[i]] for i in self.wanted]
        self.derived = adjoint(plan.function, plan.kinds, wrt)
        self.outputs = tuple(tuple((i, axis) for axis in range(plan.operands[i].axes)) for i in self.wanted)
        kinds = dict(zip(names, plan.kinds, strict=True))
        cotangents = self.derived.cotangents
        outputs = [names[i] for i in plan.places_of_outputs]
        self.seeded = [i for i, each in enumerate(outputs) if each in cotangents]
        # A kernel only reads its operands, and an adjoint overwrites the cotangents of what the kernel wrote.
        given = {outputs[i]: f"{seed}{outputs[i]}" for i in self.seeded}
        self.operands = (
            *plan.operands,
            *(Operand(given[outputs[i]], kinds[outputs[i]], len(plan.outputs[i])) for i in self.seeded),
        )
        d = [f"{own}{each}" for each in cotangents]
        tapes = [text for text, _ in self.derived.tapes]
        parameters = [*names, *given.values(), *d, *tapes]
        body = [
            _filled(f"{own}{each}", kinds[each].axes or 0, f"{given[each]}[...]" if each in given else "0.0")
            for each in cotangents
        ]
        body.append(f"{self.derived.function.__name__}({', '.join([*names, *d, *tapes])})")
        space = {self.derived.function.__name__: self.derived.function}
        self.function, self.source = _made(
            f"{self.name}_op", parameters, "\n".join(body), space, plan.function.__module__
        )
        types = dict(self.derived.tapes)
        self.kinds = (
            *plan.kinds, *(kinds[each] for each in given), *(kinds[each] for each in cotangents),
            *(Kind(types[each], 1) for each in tapes),
        )  # fmt: skip
        self.places_of_operands = (*plan.places_of_operands, *range(len(names), len(names) + len(given)))
        first = len(names) + len(given)
        self.places_of_outputs = tuple(first + cotangents.index(each) for each in wrt)

    def arguments(self, operands: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        plan, count = self.plan, len(self.plan.operands)
        inner, given = operands[:count], operands[count:]
        dtype = _DTYPES[plan.kinds[plan.places_of_outputs[0]].type]
        arguments = plan.arguments(inner, [scratch(shape, dtype) for shape in plan.shapes([x.shape for x in inner])])
        wrt = {self.names[plan.places_of_operands[i]]: out for i, out in zip(self.wanted, outputs, strict=True)}
        d: list[Array] = []
        for each in self.derived.cotangents:
            like = arguments[self.names.index(each)]
            d.append(wrt[each].reshape(like.shape) if each in wrt else scratch(like.shape, like.dtype))
        sizes = self.derived.sizer(*arguments)
        tapes = [
            scratch(shape if known else (self.room,), _DTYPES[type])
            for shape, known, (_, type) in zip(sizes, self.derived.sizes.known, self.derived.tapes, strict=True)
        ]
        return [*arguments, *map(_at_least_one_axis, given), *d, *tapes]


def split(array: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return views of consecutive parts of an array, of these shapes."""
    out: list[Array] = []
    start = 0
    for shape in shapes:
        count = int(np.prod(shape, dtype=np.int64))
        out.append(array.reshape(-1)[start : start + count].reshape(shape))
        start += count
    return out
