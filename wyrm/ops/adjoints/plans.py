"""Kernels as ops: from the arrays of a call to all arguments of a kernel, and the plans of its value and gradient."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pickle import PicklingError
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.shapes import total_size
from wyrm.graph.typing import Array
from wyrm.ops.adjoints.derived import Derived, adjoint, compiled, forward_and_backward, value
from wyrm.ops.adjoints.program import Kind, names_read
from wyrm.ops.kernels.native import scratch
from wyrm.support.texts import exact

DTYPES: dict[str, np.dtype] = {
    "f8": np.dtype(np.float64), "f4": np.dtype(np.float32), "i": np.dtype(np.int64), "b": np.dtype(np.bool_)
}  # fmt: skip
# The numbers that a tape holds where only running the kernel tells how many it needs, unless the kernel says another.
ROOM = 1 << 16
# How often turns of loops are divided into blocks at most: in loops, and in the loops within.
_LEVELS = 2
# What an axis of open size counts in the choice between these.
_OPEN = 1024
# Where parts of the residuals begin, in bytes: at multiples of it.
_ALIGNMENT = 64
# The axes of a result: of an operand, by its position and the axis, or a number.
Shape = tuple[tuple[int, int] | int, ...]
Sizes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Operand:
    """An operand: the kernel's parameter, what that holds, and how many axes the operand has."""

    name: str
    kind: Kind
    axes: int


@dataclass(frozen=True)
class Memory:
    """An array of a kernel's own: the parameter, the type as in `Kind`, and the shape."""

    name: str
    type: str
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its elements."""
        return DTYPES[self.type]

    @property
    def bytes(self) -> int:
        """The bytes that it takes in residuals."""
        return -(-math.prod(self.shape) * self.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT

    def made(self) -> Array:
        """Return a new array, of any numbers."""
        return scratch(self.shape, self.dtype)


class Plan:
    """A kernel whose arguments are arrays: operands, which it only reads, memory of its own, and results.

    `function` takes the operands, the `fixed` numbers, memory, and the results, which it fills, under the names
    `names`, each of the kind in `kinds`. `outputs` are the axes of the results, `names_of_outputs` their parameters.
    """

    name: str
    operands: tuple[Operand, ...]
    outputs: tuple[Shape, ...]
    names_of_outputs: tuple[str, ...]
    # The type of floats of results, as in `Kind`.
    type: str
    room: int
    fixed: Mapping[str, float | int | bool] = {}
    # How many bytes a gradient may record, None for any number.
    tape_limit: int | None = None
    # How many times it was differentiated.
    order: int = 0

    @property
    def function(self) -> Callable[..., Any]:
        """The kernel."""
        raise NotImplementedError

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of all parameters of the kernel, in their order."""
        raise NotImplementedError

    def memory(self, shapes: Sizes) -> list[Memory]:
        """Return the memory that the kernel needs for operands of these shapes."""
        raise NotImplementedError

    def shapes(self, sizes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the axes of the results for those of the operands, or their sizes for theirs."""
        return [
            tuple(each if isinstance(each, int) else sizes[each[0]][each[1]] for each in shape)
            for shape in self.outputs
        ]

    # The results that have a first axis in the value of an op, over which they are sums.
    summed: Collection[int] = ()

    def in_value(self, sizes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the axes of the results in the value of an op."""
        return self.shapes(sizes)

    def packed(self, dims: Sequence[Sequence[Axis]]) -> Axis:
        """Return the axis of all results in the value of an op, one after the other."""
        return total_size(self.in_value(dims))

    @property
    def kernel(self) -> Callable[..., Any]:
        """The kernel that programs call, which may take other arguments than `function`."""
        return self.function

    def kernel_arguments(self, operands: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        """Return the arguments of `kernel`."""
        return self.arguments(operands, outputs)

    def given(self, operands: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments of the kernel but for its memory, by name."""
        names = [each.name for each in self.operands]
        arrays = dict(zip([*names, *self.names_of_outputs], [*operands, *outputs], strict=True))
        return {**self.fixed, **{key: each.reshape(each.shape or (1,)) for key, each in arrays.items()}}

    def like(self, shapes: Sizes) -> dict[str, Any]:
        """Return arguments without elements of their own, which tell sizes alone."""
        found = [np.broadcast_to(np.int8(0), shape) for shape in [*map(tuple, shapes), *self.shapes(shapes)]]
        return self.given(found[: len(self.operands)], found[len(self.operands) :])

    def arguments(self, operands: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        """Return the arguments of the kernel for these arrays, with new memory."""
        memory = {each.name: each.made() for each in self.memory([x.shape for x in operands])}
        found = self.given(operands, outputs) | memory
        return [found[each] for each in self.kinds]

    @property
    def module(self) -> str:
        """The module of the user's kernel."""
        raise NotImplementedError

    @property
    def gradient(self) -> GradientPlan:
        """The plan of the gradients."""
        return self.gradient_at(0)

    @cached_property
    def _gradients(self) -> dict[int, GradientPlan]:
        return {}

    def gradient_at(self, levels: int) -> GradientPlan:
        """Return the plan of the gradients in which turns of loops are divided so often; see `adjoint`."""
        if levels not in self._gradients:
            self._gradients[levels] = self._gradient_at(levels)
        return self._gradients[levels]

    def _gradient_at(self, levels: int) -> GradientPlan:
        return GradientPlan(self, levels)

    def gradient_for(self, dims: Sequence[Sequence[Axis]]) -> GradientPlan:
        """Return the plan of the gradients for operands of these axes, with tapes that are not longer than the limit.

        Where they are longer the turns of loops are divided into blocks, and so they are where no size is known. If no
        plan keeps the limit, return that with the shortest tapes.
        """
        if self.tape_limit is None:
            return self.gradient
        sizes = [[axis_size(axis) for axis in each] for each in dims]
        # Only running the kernel tells how long some tapes are.
        is_open = any(None in each for each in sizes) or not self.gradient.has_known_tapes
        counted = [[_OPEN if size is None else size for size in each] for each in sizes]
        found: list[tuple[int, int]] = []
        for levels in range(is_open, _LEVELS + 1):
            found.append((self.gradient_at(levels).tape_bytes(counted), levels))
            if found[-1][0] <= self.tape_limit:
                return self.gradient_at(levels)
        return self.gradient_at(min(found)[1])

    @property
    def has_gradient(self) -> bool:
        """Whether anything has asked for the gradients."""
        return bool(self._gradients)


def filled(text: str, axes: int, value: str) -> str:
    """Return the statements that set all elements of an array; `value` may use the index `[...]`."""
    indices = [f"at_{i}" for i in range(axes)]
    lines = [f"{'    ' * i}for {each} in range({text}.shape[{i}]):" for i, each in enumerate(indices)]
    inside = ", ".join(indices)
    return "\n".join([*lines, f"{'    ' * axes}{text}[{inside}] = {value.replace('[...]', f'[{inside}]')}"])


def made(
    name: str, parameters: Sequence[str], body: Sequence[str], space: dict[str, Any], module: str
) -> Callable[..., Any]:
    """Return a kernel of these statements, which call those in `space`; its indices are checked where theirs are."""
    source = f"def {name}({', '.join(parameters)}):\n" + textwrap.indent("\n".join(body) or "pass", "    ") + "\n"
    return compiled(source, space, module, any(vars(each).get("guarded", False) for each in space.values()))


class ValuePlan(Plan):
    """The results of a user's kernel: the numbers that it returns, then the arrays that it writes.

    `fixed`: the numbers that a call gave in place of operands, by parameter. `results`: the axes of the arrays that the
    kernel writes, which are its last parameters.
    """

    def __init__(
        self, function: Callable[..., Any], operands: Sequence[Operand], fixed: Mapping[str, float | int | bool],
        results: Mapping[str, Shape], type: str, room: int, tape_limit: int | None = None,
    ) -> None:  # fmt: skip
        code = function.__code__
        self.of, self.results = function, results
        self.parameters = code.co_varnames[: code.co_argcount]
        by_name = {each.name: each for each in operands}
        self.inner_kinds = [_kind_of_parameter(each, by_name, fixed, results, type) for each in self.parameters]
        self.derived: Derived = value(function, self.inner_kinds)
        self.fixed, self.room, self.type, self.tape_limit = fixed, room, type, tape_limit
        self.name, self.operands = function.__name__, tuple(operands)
        self.outputs = (*[()] * self.derived.results, *results.values())
        self.names_of_outputs = (*(f"number_{i}" for i in range(self.derived.results)), *results)

    def __reduce__(self) -> tuple[object, ...]:
        module, path = self.of.__module__, self.of.__qualname__
        if _found(module, path) is not self.of:
            raise PicklingError(
                f"the kernel {self.name} cannot be pickled: it is not found as {path} in the module {module}; define "
                f"it at the top of a module"
            )
        rest = self.operands, dict(self.fixed), dict(self.results), self.type, self.room, self.tape_limit
        return _unpickled, (module, path, *rest)

    @property
    def module(self) -> str:
        return self.of.__module__

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        inner = dict(zip(self.parameters, self.inner_kinds, strict=True))
        kinds = {key: Kind(kind.type, 1) if self._is_number(key) else kind for key, kind in inner.items()}
        kinds |= dict(zip(self.derived.scratch, self.derived.kinds_of_scratch, strict=True))
        return kinds | {each: Kind(self.type, 1) for each in self.names_of_outputs[: self.derived.results]}

    def _is_number(self, parameter: str) -> bool:
        """Return whether a parameter is a number that an operand holds."""
        return any(each.name == parameter and each.axes == 0 for each in self.operands)

    @cached_property
    def function(self) -> Callable[..., Any]:
        inner, numbers = self.derived.function, self.names_of_outputs[: self.derived.results]
        given = [f"{each}[0]" if self._is_number(each) else each for each in self.parameters]
        call = f"{inner.__name__}({', '.join([*given, *self.derived.scratch])})"
        if numbers:
            call = f"{', '.join(f'r_{i}' for i in range(len(numbers)))} = {call}"
        zeros = [filled(each, len(shape), "0.0") for each, shape in self.results.items()]
        body = [*zeros, call, *(f"{each}[0] = r_{i}" for i, each in enumerate(numbers))]
        return made(f"{self.name}_op", list(self.kinds), body, {inner.__name__: inner}, self.module)

    def memory(self, shapes: Sizes) -> list[Memory]:
        like = self.like(shapes)
        found = self.derived.sizer(*(like[each] for each in self.parameters))
        kinds = [each.type for each in self.derived.kinds_of_scratch]
        return list(map(Memory, self.derived.scratch, kinds, found))


# The plans of each function, by what they are made of.
_plans: WeakKeyDictionary[Callable[..., Any], dict[Any, ValuePlan]] = WeakKeyDictionary()


def plan_of(
    function: Callable[..., Any], operands: Sequence[Operand], fixed: Mapping[str, float | int | bool],
    results: Mapping[str, Shape], type: str, room: int, tape_limit: int | None = None,
) -> ValuePlan:  # fmt: skip
    """Return the plan of a kernel, the same one for the same operands, fixed numbers, results and global names."""
    known = _plans.setdefault(function, {})
    numbers = tuple((k, exact(v)) for k, v in fixed.items())
    key = tuple(operands), numbers, tuple(results.items()), type, room, tape_limit, _read_by({function})
    if key not in known:
        known[key] = ValuePlan(function, operands, fixed, results, type, room, tape_limit)
    return known[key]


def _read_by(functions: set[Callable[..., Any]]) -> tuple[Any, ...]:
    """Return the numbers, texts and functions that kernels and what they call now read by global names."""
    found: list[Any] = []
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        code = getattr(function, "__code__", None)
        for each in () if code is None else code.co_names:
            value = function.__globals__.get(each)
            value = getattr(value, "kernel_function", value)
            if isinstance(value, bool | int | float | str):
                found.append((each, value if isinstance(value, str) else exact(value)))
            elif isinstance(value, FunctionType):
                found.append((each, value))
                if value not in functions:
                    functions.add(value)
                    waiting.append(value)
    return tuple(found)


def _found(module: str, path: str) -> Any:
    """Return the function of a kernel by its name; None if there is none."""
    found: Any = import_module(module)
    for each in path.split("."):
        found = getattr(found, each, None)
    return getattr(found, "kernel_function", found)


def _unpickled(module: str, path: str, *rest: Any) -> ValuePlan:
    return plan_of(_found(module, path), *rest)


def _kind_of_parameter(
    text: str, operands: Mapping[str, Operand], fixed: Mapping[str, float | int | bool], results: Mapping[str, Shape],
    type: str,
) -> Kind:  # fmt: skip
    if text in operands:
        return operands[text].kind
    if text in fixed:
        found = fixed[text]
        return Kind("b" if isinstance(found, bool) else "i" if isinstance(found, int) else "f8")
    return Kind(type, len(results[text]))


class GradientPlan(Plan):
    """The gradients of a plan with respect to its operands of floats.

    The operands are those of the plan, and the cotangents of the results at the positions `seeded`, on which the
    gradients depend. Two kernels compute them: `forward` takes the arguments of the plan's kernel and the tapes, and
    fills the results and the residuals; `backward` reads these. `function` does both in one call, for the next
    derivative. `levels`: how often turns of loops are divided into blocks, which run forward once more.
    """

    def __init__(self, plan: Plan, levels: int = 0) -> None:
        self.plan, self.room, self.type, self.fixed = plan, plan.room, plan.type, plan.fixed
        self.levels, self.tape_limit = levels, plan.tape_limit
        self.name = f"{plan.name}_gradient"
        self.order = plan.order + 1
        self.wanted: list[int] = [i for i, each in enumerate(plan.operands) if each.kind.is_float]
        self._wrt = [plan.operands[i].name for i in self.wanted]
        self.first, self.second = forward_and_backward(plan.function, list(plan.kinds.values()), self._wrt, levels)
        self.d = {each: f"c{self.order}_{each}" for each in self.second.cotangents}  # no lower order has these names
        self.outputs = tuple(tuple((i, axis) for axis in range(plan.operands[i].axes)) for i in self.wanted)
        self.names_of_outputs = tuple(self.d[each] for each in self._wrt)
        self.seeded: list[int] = [i for i, each in enumerate(plan.names_of_outputs) if each in self.d]
        # A kernel only reads its operands, and an adjoint overwrites the cotangents of what the kernel wrote.
        seeds = [plan.names_of_outputs[i] for i in self.seeded]
        self.seeds = {each: f"given{self.order}_{each}" for each in seeds}
        self.operands = (
            *plan.operands,
            *(Operand(self.seeds[plan.names_of_outputs[i]], plan.kinds[plan.names_of_outputs[i]], len(plan.outputs[i]))
              for i in self.seeded),
        )  # fmt: skip
        self.read = names_read(self.second.source)

    def __reduce__(self) -> tuple[object, ...]:
        return _gradient, (self.plan, self.levels)

    @property
    def module(self) -> str:
        return self.plan.module

    # --- two calls ----------------------------------------------------------------------------------------------------

    @property
    def forward(self) -> Callable[..., Any]:
        """The kernel that computes the results of the plan, and records."""
        return self.first.function

    @property
    def forward_names(self) -> list[str]:
        """The parameters of `forward`."""
        return [*self.plan.kinds, *(text for text, _ in self.first.tapes)]

    @cached_property
    def backward(self) -> Callable[..., Any]:
        """The kernel that computes the gradients from the residuals."""
        return self.with_cotangents(self.second, f"{self.name}_op")

    def with_cotangents(self, derived: Derived, name: str, added: Collection[str] = ()) -> Callable[..., Any]:
        """Return a kernel that calls a derived one with cotangents of its own; it adds to the gradients `added`."""
        kinds, tapes = self.plan.kinds, memory_of(derived)
        fills = [
            filled(d, kinds[each].axes or 0, f"{self.seeds[each]}[...]" if each in self.seeds else "0.0")
            for each, d in self.d.items()
            if d not in added
        ]
        call = f"{derived.function.__name__}({', '.join([*kinds, *self.d.values(), *tapes])})"
        parameters = [*kinds, *self.seeds.values(), *self.d.values(), *tapes]
        return made(name, parameters, [*fills, call], {derived.function.__name__: derived.function}, self.module)

    def residuals(self, shapes: Sizes) -> list[Memory]:
        """Return what the residuals hold behind the results, for operands of the plan of these shapes."""
        kept = [each for each in self.plan.memory(shapes) if each.name in self.read]
        return [*kept, *self.tapes(shapes)]

    def tapes(self, shapes: Sizes) -> list[Memory]:
        """Return the tapes, for operands of the plan of these shapes."""
        return self._memory(self.first, self.first.tapes, shapes)

    def work(self, shapes: Sizes) -> list[Memory]:
        """Return the memory of blocks that run forward again."""
        return self._memory(self.second, [(each.name, each.type) for each in self.second.work], shapes)

    @property
    def has_known_tapes(self) -> bool:
        """Whether the sizes of the operands tell how long the tapes are."""
        return self.first.known

    def tape_bytes(self, shapes: Sizes) -> int:
        """Return the bytes of all tapes, and of what blocks need to run again."""
        return sum(each.bytes for each in (*self.tapes(shapes), *self.work(shapes)))

    def _memory(self, derived: Derived, wanted: Sequence[tuple[str, str]], shapes: Sizes) -> list[Memory]:
        like, memory = self.plan.like(shapes), self.plan.memory(shapes)
        given = {**like, **{each.name: np.broadcast_to(np.int8(0), each.shape) for each in memory}}
        found = derived.sizer(*(given[each] for each in self.plan.kinds))
        known = dict(zip(derived.sizes.names, zip(found, derived.sizes.known, strict=True), strict=True))
        out: list[Memory] = []
        for text, type in wanted:
            shape, is_known = known[text]
            out.append(Memory(text, type, tuple(shape) if is_known else (shape[0] + self.room,)))
        return out

    def elements(self, shapes: Sizes) -> int:
        """Return the number of elements of the residuals, with the results, of the type of these."""
        size = DTYPES[self.type].itemsize
        kept = sum(each.bytes for each in self.residuals(shapes))
        return _start(sum(map(math.prod, self.plan.shapes(shapes))), size) + kept // size

    def taken_apart(self, packed: Array, shapes: Sizes) -> tuple[list[Array], dict[str, Array]]:
        """Return the results and the memory in residuals, as views by name."""
        outputs = self.plan.shapes(shapes)
        results = split(packed, outputs)
        start = _start(sum(map(math.prod, outputs)), packed.itemsize)
        memory: dict[str, Array] = {}
        for each in self.residuals(shapes):
            part = packed[start : start + each.bytes // packed.itemsize].view(each.dtype)
            memory[each.name] = part[: math.prod(each.shape)].reshape(each.shape)
            start += each.bytes // packed.itemsize
        return results, memory

    def forward_arguments(
        self, operands: Sequence[Array], outputs: Sequence[Array], residuals: Mapping[str, Array]
    ) -> list[Any]:
        """Return the arguments of `forward`."""
        memory = {each.name: each.made() for each in self.plan.memory([x.shape for x in operands])
                  if each.name not in residuals}  # fmt: skip
        found = {**self.plan.given(operands, outputs), **memory, **residuals}
        return [found[each] for each in self.forward_names]

    def backward_arguments(
        self, operands: Sequence[Array], residuals: tuple[Sequence[Array], Mapping[str, Array]],
        outputs: Sequence[Array],
    ) -> list[Any]:  # fmt: skip
        """Return the arguments of `backward`; the residuals are the results of the plan and the memory."""
        plan, (results, memory) = self.plan, residuals
        count = len(plan.operands)
        shapes = [x.shape for x in operands[:count]]
        found = {**plan.given(operands[:count], results), **self.given(operands, outputs), **memory}
        for each in plan.memory(shapes):  # what the backward sweep does not read
            if each.name not in memory:
                found[each.name] = scratch((0,) * len(each.shape), each.dtype)
        found |= {each.name: each.made() for each in (*self.own_cotangents(shapes), *self.work(shapes))}
        names = [*plan.kinds, *self.seeds.values(), *self.d.values(), *memory_of(self.second)]
        return [found[each] for each in names]

    def own_cotangents(self, shapes: Sizes) -> list[Memory]:
        """Return the cotangents that are no results."""
        plan = self.plan
        arrays = {each.name: each.shape for each in plan.memory(shapes)}
        arrays |= {key: shape or (1,) for key, shape in zip(plan.names_of_outputs, plan.shapes(shapes), strict=True)}
        return [Memory(d, plan.kinds[each].type, arrays[each]) for each, d in self.d.items() if each not in self._wrt]

    # --- one call -----------------------------------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> Derived:
        return adjoint(self.plan.function, list(self.plan.kinds.values()), self._wrt)

    @cached_property
    def function(self) -> Callable[..., Any]:
        return self.with_cotangents(self._whole, f"{self.name}_whole")

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        kinds = self.plan.kinds
        return {
            **kinds, **{d: kinds[each] for each, d in self.seeds.items()},
            **{d: kinds[each] for each, d in self.d.items()},
            **{text: Kind(type, 1) for text, type in self._whole.tapes},
        }  # fmt: skip

    def memory(self, shapes: Sizes) -> list[Memory]:
        plan, own = self.plan, shapes[: len(self.plan.operands)]
        inner = plan.memory(own)
        results = [
            Memory(text, self.type, shape or (1,))
            for text, shape in zip(plan.names_of_outputs, plan.shapes(own), strict=True)
        ]
        tapes = self._memory(self._whole, self._whole.tapes, own)
        return [*inner, *results, *self.own_cotangents(own), *tapes]


def _gradient(plan: Plan, levels: int) -> GradientPlan:
    return plan.gradient_at(levels)


def memory_of(derived: Derived) -> list[str]:
    """Return the tapes and the other memory of a derived kernel."""
    return [*(text for text, _ in derived.tapes), *(each.name for each in derived.work)]


def _start(results: int, itemsize: int) -> int:
    """Return where the memory begins in residuals, in elements, behind so many of the results."""
    unit = _ALIGNMENT // itemsize
    return -(-results // unit) * unit


def split(array: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return views of consecutive parts of an array, of these shapes."""
    out: list[Array] = []
    start = 0
    for shape in shapes:
        count = math.prod(shape)
        out.append(array.reshape(-1)[start : start + count].reshape(shape))
        start += count
    return out
