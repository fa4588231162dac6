"""`kernel`: a Python function with loops over elements as an op, whose gradients follow from its source."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import DTypeError, OptionError, RegistrationError, ShapeError
from wyrm.graph.axes import Dim, is_name
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import Bs
from wyrm.ops.adjoints.derived import Derived, adjoint, tangent, value
from wyrm.ops.adjoints.op import op_of
from wyrm.ops.adjoints.plans import ROOM, Operand, Shape, ValuePlan, plan_of
from wyrm.ops.adjoints.program import Kind
from wyrm.ops.adjoints.reading import source_of
from wyrm.ops.adjoints.rows import rows_of
from wyrm.support.options import whole

P = ParamSpec("P")
R = TypeVar("R")
# What the operands of a kernel take, and the axes of a second and a third result.
As = TypeVarTuple("As")
Cs = TypeVarTuple("Cs")
Ds = TypeVarTuple("Ds")


class Written(Generic[*Bs]):
    """`out: Written[Batch, Time]`: in the signature of a kernel, an array of floats that it writes, a result."""

    shape: tuple[int, ...]
    size: int
    ndim: int

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError


class Kernel(Generic[P, R]):
    """A Python function with loops, made by `kernel`: an op of nodes, and the function itself of arrays and numbers."""

    def __init__(
        self, function: Callable[P, Any], slopes: tuple[Any, ...] | None, room: int, batch: type[Dim] | str | None,
        tape_limit: int | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function)
        code = getattr(function, "__code__", None)
        if code is None:
            raise RegistrationError(f"wyrm.kernel takes a function written with def, not {function!r}")
        self.kernel_function: Any = function
        self.names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
        self.room: int = whole("room", room, 1)
        self.tape_limit: int | None = None if tape_limit is None else whole("tape_limit", tape_limit, 0)
        if batch is not None and not (isinstance(batch, str) or is_name(batch)):
            raise OptionError(f"batch must be an axis of the annotations, as in batch=Batch, not {batch!r}")
        self.batch = batch
        # Where code is run block by block, a later block takes the place of the lines of an earlier one.
        with suppress(OSError, TypeError):
            vars(function)["source_of_kernel"] = "".join(inspect.getsourcelines(function)[0])
        if slopes is not None:
            if len(slopes) != len(self.names):
                raise RegistrationError(
                    f"{function.__name__} has {len(self.names)} parameters and {len(slopes)} slopes: give one for each"
                )
            vars(function)["slopes"] = tuple(getattr(each, "kernel_function", each) for each in slopes)
        self._last: ValuePlan | None = None

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        given: dict[str, Any] = dict(zip(self.names, arguments, strict=False)) | keywords
        if not any(isinstance(each, BaseNode) for each in given.values()):
            if len(given) < len(self.names):
                self._check_written(given)
            if self.batch is not None:
                nothing: Any = self._rows_in_python(given)
                return nothing  # type: ignore[no-any-return]  # the arrays are filled
            found: R = self.kernel_function(*arguments, **keywords)  # in Python, on arrays and numbers
            return found
        name, twice = self.kernel_function.__name__, [each for each in self.names[: len(arguments)] if each in keywords]
        if twice:
            raise TypeError(f"{name} got {twice[0]} twice, by its position and by its name")
        if len(arguments) > len(self.names):
            raise TypeError(f"{name} has {len(self.names)} parameters, {', '.join(self.names)}, not {len(arguments)}")
        return self._node(given)  # type: ignore[no-any-return]  # what the annotations say

    def _check_written(self, given: Mapping[str, Any]) -> None:
        """Raise `TypeError` for a call in Python without an array that the kernel writes."""
        name, hints = self.kernel_function.__name__, self._hints
        left = [each for each in self.names if each not in given and typing.get_origin(hints.get(each)) is Written]
        if left:
            raise TypeError(
                f"{name} has no nodes here, so it runs in Python and writes to {', '.join(left)}: give it an array of "
                f"zeros, as in {left[0]}=np.zeros(shape)"
            )

    def _node(self, given: dict[str, Any]) -> Any:
        """Return the node of a call, or a tuple of them."""
        name = self.kernel_function.__name__
        unknown = [each for each in given if each not in self.names]
        if unknown:
            raise TypeError(f"{name} has no parameter {unknown[0]}; it has {', '.join(self.names)}")
        beside = next((each for each in given.values() if isinstance(each, Node)), None)
        operands: list[Operand] = []
        parents: list[BaseNode] = []
        fixed: dict[str, float | int | bool] = {}
        for text in self.names:
            if text not in given:
                continue
            value_ = given[text]
            if isinstance(value_, bool | int | float | np.generic):
                fixed[text] = value_.item() if isinstance(value_, np.generic) else value_
                continue
            parent = _as_parent(value_, beside, f"{text} of {name}")
            operands.append(Operand(text, _kind_of_node(parent), len(parent.dims)))
            parents.append(parent)
        results = self._results(given, operands, parents)
        floats = {parent.dtype for parent in parents if parent.dtype.kind == "f"}
        if len(floats) != 1:
            listed = ", ".join(f"{each.name}: {p.dtype}" for each, p in zip(operands, parents, strict=True))
            raise DTypeError(f"{name} takes float operands of one type, not {listed}; convert with .astype")
        dtype = "f4" if floats == {np.dtype(np.float32)} else "f8"
        plan = plan_of(self.kernel_function, operands, fixed, results, dtype, self.room, self.tape_limit)
        if not plan.outputs and (written := sorted(plan.derived.written & set(given))):
            raise RegistrationError(
                f"{name} writes to {written[0]}, which the call gives: leave it out, and annotate its axes, as in "
                f"{written[0]}: wy.Written[Batch, Time], with axes that the operands are annotated with"
            )
        if not plan.outputs:
            raise RegistrationError(
                f"{name} returns nothing and has no parameter for a result: arrays that it writes are its last "
                f"parameters, which a call leaves out"
            )
        _check_reads(plan)
        self._last = plan
        if self.batch is None:
            node: Any = op_of(plan)(*parents)
        else:
            if plan.derived.results:
                raise RegistrationError(
                    f"{name} returns a number, and with batch= each row is computed apart: write a number for each, "
                    f"as in out: wy.Written[{self._batch_name}], and sum them after the call"
                )
            node = op_of(rows_of(plan, self._row_parameters & {each.name for each in operands}))(*parents)
        parts = node.parts(node)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _results(
        self, given: dict[str, Any], operands: Sequence[Operand], parents: Sequence[BaseNode]
    ) -> dict[str, Shape]:
        """Return the axes of the arrays that the kernel writes: of the parameters that the call leaves out."""
        name = self.kernel_function.__name__
        left = [each for each in self.names if each not in given]
        defaults = self.kernel_function.__defaults__ or ()
        if defaults:
            raise RegistrationError(f"{name} has parameters with defaults: a call gives all that it reads")
        hints = self._hints
        places: dict[Any, tuple[int, int]] = {}
        for i, (operand, parent) in enumerate(zip(operands, parents, strict=True)):
            axes = _axes_of_hint(hints.get(operand.name))
            if axes is None:
                continue
            if len(axes) != len(parent.dims):
                raise ShapeError(f"{name}: {describe(parent)} is given for {operand.name}, which has {len(axes)} axes")
            for k, (axis, dim) in enumerate(zip(axes, parent.dims, strict=True)):
                if is_name(axis) and isinstance(dim, Dim) and not isinstance(dim, axis):
                    raise ShapeError(
                        f"{name}: axis {k} of {operand.name} is {axis.__name__}, and {describe(parent)} has "
                        f"{type(dim).__name__} there"
                    )
                places.setdefault(axis, (i, k))
        found: dict[str, Shape] = {}
        for text in left:
            axes = _axes_of_hint(hints.get(text))
            if axes is None:
                raise ShapeError(
                    f"{name} got no {text}: give it or, if it is an array that the kernel writes, annotate its axes, "
                    f"as in {text}: wy.Written[Batch, Time], with axes that the operands are annotated with"
                )
            shape: list[tuple[int, int] | int] = []
            for axis in axes:
                if isinstance(axis, int):
                    shape.append(axis)
                elif axis in places:
                    shape.append(places[axis])
                else:
                    known = ", ".join(getattr(each, "__name__", str(each)) for each in places) or "none"
                    raise ShapeError(
                        f"{name}: the axis {getattr(axis, '__name__', axis)} of the result {text} is that of no "
                        f"operand; annotated are {known}"
                    )
            found[text] = tuple(shape)
        return found

    @property
    def _batch_name(self) -> str:
        return getattr(self.batch, "__name__", str(self.batch))

    @functools.cached_property
    def _row_parameters(self) -> frozenset[str]:
        """The parameters that have the axis of the batch, of which a call of the function has one row."""
        found: set[str] = set()
        for text in self.names:
            axes = [getattr(each, "__name__", each) for each in _axes_of_hint(self._hints.get(text)) or ()]
            if self._batch_name in axes[1:]:
                raise ShapeError(
                    f"{self.kernel_function.__name__}: {self._batch_name} is the axis of the batch, and must be the "
                    f"first one of {text}, not one of ({', '.join(map(str, axes))})"
                )
            if axes and axes[0] == self._batch_name:
                found.add(text)
        written = [text for text in self.names if typing.get_origin(self._hints.get(text)) is Written]
        if not found.difference(written) or not found.issuperset(written):
            raise ShapeError(
                f"{self.kernel_function.__name__}: {self._batch_name} is the axis of the batch: annotate an operand "
                f"and each result with it, as in x: wy.Tensor[{self._batch_name}], out: wy.Written[{self._batch_name}]"
            )
        return frozenset(found)

    def _rows_in_python(self, given: dict[str, Any]) -> Any:
        (rows, *others) = {len(given[each]) for each in self._row_parameters}
        if others:
            sizes = ", ".join(f"{each}: {len(given[each])}" for each in sorted(self._row_parameters))
            raise ShapeError(f"{self.kernel_function.__name__}: the rows are not equally many: {sizes}")
        for row in range(rows):
            self.kernel_function(**{k: x[row : row + 1] if k in self._row_parameters else x for k, x in given.items()})

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.kernel_function)
        except NameError as error:
            raise RegistrationError(
                f"{self.kernel_function.__name__}: {error} in its annotations: define axes in the module"
            ) from None

    def _kinds(self) -> list[Kind]:
        """Return what the parameters are, by the last call or by their annotations."""
        if self._last is not None:
            return self._last.inner_kinds
        hints = self._hints
        found: list[Kind] = []
        for text in self.names:
            hint = hints.get(text)
            axes = _axes_of_hint(hint)
            if axes is not None:
                whole = typing.get_origin(hint) is IndexNode
                found.append(Kind("i" if whole else "f8", len(axes)))
            elif hint in (float, int, bool):
                found.append(Kind({float: "f8", int: "i", bool: "b"}[hint]))
            else:
                raise OptionError(
                    f"{self.kernel_function.__name__} has not been called, and {text} has no annotation: call it with "
                    f"nodes first, or annotate {text}, as in {text}: wy.Tensor[Batch]"
                )
        return found

    def adjoint(self) -> Derived:
        """Return the kernel of the gradient, for operands as in the last call, or as annotated."""
        return adjoint(self.kernel_function, self._kinds())

    def tangent(self) -> Derived:
        """Return the kernel of the derivative along a direction."""
        return tangent(self.kernel_function, self._kinds())

    def value(self) -> Derived:
        """Return the kernel as it is compiled."""
        return value(self.kernel_function, self._kinds())

    def listing(self) -> str:
        """Return the kernel, its adjoint and its tangent as text, each with the kernel's lines as comments.

        Raise `NotDifferentiable` for a kernel whose source is not in a file.
        """
        source = source_of(self.kernel_function)
        return "\n".join([source, self.adjoint().source, self.tangent().source])

    def __reduce__(self) -> str:
        return self.kernel_function.__qualname__  # type: ignore[no-any-return]  # a name

    def __repr__(self) -> str:
        return f"<wyrm.kernel {self.kernel_function.__name__}({', '.join(self.names)})>"


if TYPE_CHECKING:

    class KernelOfArrays(Kernel[..., R], Generic[*As, R]):
        """A kernel that writes arrays, which a call leaves out: the types of its operands, and its results."""

        def __call__(self, *arguments: *As) -> R: ...


def _as_parent(value: Any, beside: Node | None, what: str) -> BaseNode:
    if isinstance(value, BaseNode):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        return IndexConstant(array)
    if array.dtype.kind == "f":
        return as_constant(array, beside.dtype if beside is not None else array.dtype)
    raise DTypeError(f"{what} is an array of {array.dtype}: kernels take floats and integers")


def _kind_of_node(parent: BaseNode) -> Kind:
    types = {"f": "f4" if parent.dtype == np.float32 else "f8", "b": "b"}
    return Kind(types.get(parent.dtype.kind, "i"), len(parent.dims) or None)


def _axes_of_hint(hint: Any) -> tuple[Any, ...] | None:
    """Return the axes of an annotation such as `Tensor[Batch, Time]`; None for another one."""
    origin = typing.get_origin(hint)
    if origin is Written:
        return _axes_with_sizes(typing.get_args(hint))
    if not (isinstance(origin, type) and issubclass(origin, BaseNode)):
        return None
    shape = typing.get_args(hint)[-1]
    if typing.get_origin(shape) is not tuple:
        return None
    return _axes_with_sizes(typing.get_args(shape))


def _axes_with_sizes(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the axes of an annotation, with the numbers of literals."""
    if found == ((),):
        return ()
    return tuple(typing.get_args(each)[0] if typing.get_origin(each) is typing.Literal else each for each in found)


def _check_reads(plan: ValuePlan) -> None:
    """Refuse a kernel that writes to an operand."""
    for text in plan.derived.written:
        if any(each.name == text for each in plan.operands):
            raise RegistrationError(
                f"{plan.name} writes to {text}, which a call gives: the arrays that a kernel writes are its last "
                f"parameters, which a call leaves out; copy {text} to an array of the kernel, as in work = np.zeros(n)"
            )


class KernelDecorator(Protocol):
    """What type checkers know of `kernel`: the axes of the operands and results, by the annotations of the function."""

    # What is of several results is of a single one too, behind operands that are results.
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]  # as above
        self, function: Callable[[*As, Written[*Bs], Written[*Cs], Written[*Ds]], None], /
    ) -> KernelOfArrays[*As, tuple[Tensor[*Bs], Tensor[*Cs], Tensor[*Ds]]]: ...
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]  # as above
        self, function: Callable[[*As, Written[*Bs], Written[*Cs]], None], /
    ) -> KernelOfArrays[*As, tuple[Tensor[*Bs], Tensor[*Cs]]]: ...
    @overload
    def __call__(self, function: Callable[[*As, Written[*Bs]], None], /) -> KernelOfArrays[*As, Tensor[*Bs]]: ...
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]  # as above
        self, function: Callable[[*As, Written[*Bs]], float], /
    ) -> KernelOfArrays[*As, tuple[Tensor[()], Tensor[*Bs]]]: ...
    @overload
    def __call__(self, function: Callable[P, float], /) -> Kernel[P, Tensor[()]]: ...
    @overload
    def __call__(self, function: Callable[P, tuple[float, float]], /) -> Kernel[P, tuple[Tensor[()], Tensor[()]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, tuple[float, float, float]], /
    ) -> Kernel[P, tuple[Tensor[()], Tensor[()], Tensor[()]]]: ...
    @overload
    def __call__(
        self,
        function: Callable[..., Any],
        /,
        *,
        slopes: tuple[Callable[..., Any], ...] | None = ...,
        room: int = ...,
        batch: type[Dim] | str | None = ...,
        tape_limit: int | None = ...,
    ) -> Kernel[..., Any]: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        slopes: tuple[Callable[..., Any], ...] | None = ...,
        room: int = ...,
        batch: type[Dim] | str | None = ...,
        tape_limit: int | None = ...,
    ) -> KernelDecorator: ...


def _of_overloads(function: Callable[..., Any]) -> KernelDecorator:
    """Return the function, which type checkers take for its overloads, with options and without."""
    found: Any = function
    return found  # type: ignore[no-any-return]  # as above


@_of_overloads
def kernel(
    function: Any = None, /, *, slopes: tuple[Any, ...] | None = None, room: int = ROOM,
    batch: type[Dim] | str | None = None, tape_limit: int | None = None,
) -> Any:  # fmt: skip
    """Make an op of a Python function with loops over elements; a decorator.

    The function is written in the kernel language: numbers, loops over `range`, `while`, `if`, elements of arrays, and
    functions of NumPy and `math` of one number. A call with nodes returns a node, whose value native code computes.
    Gradients of any order follow from the source: the adjoint of a kernel is a kernel, which `show` prints. A call with
    arrays and numbers alone runs in Python.

    The results are the numbers that it returns, each a node without axes, and the arrays that it writes: its last
    parameters, which a call leaves out, and whose annotations have axes of the operands. They hold zeros before. A
    number that is given in place of a node is fixed. Arrays that the kernel needs for itself are made at its start, as
    by `work = np.zeros(x.size)`.

    `slopes`: for each parameter a kernel that stands in place of the derivative, for kernels that other kernels call.
    `room`: how many numbers a gradient may record where a `while` or the data hides how many it needs.
    `tape_limit`: how many bytes a gradient may record before it divides the turns of loops into blocks, of about the
    square root of their number; so it does where axes are open. It keeps the state at the start of each block, and runs
    a block forward again before it runs back: once, or twice where the turns of loops within are divided too, because
    one block would record more. Blocks of a loop whose number of turns is not known have 64 turns.
    `batch`: the first axis of operands and of all results, by its class or the name of that. Each row is then a call of
    its own, with arrays of one row, and threads share the rows. The numbers do not depend on the threads. A gradient
    with respect to an operand without that axis is summed over 16 parts of the batch, each of its size.

    Raise `NotDifferentiable`, with the line and what to write, for what has no adjoint, before anything runs. Raise
    `ShapeError` and `DTypeError` for operands that do not fit the annotations, and `IndexOutOfRange` where it runs and
    an index is out of range.

    >>> @wy.kernel
    ... def smoothed(x, factor):
    ...     total, mean = 0.0, 0.0
    ...     for i in range(x.size):
    ...         mean = factor * mean + (1.0 - factor) * x[i]
    ...         total += (x[i] - mean) * (x[i] - mean)
    ...     return total
    >>> x = wy.Parameter(np.array([1.0, 3.0]))
    >>> loss = smoothed(x, 0.5)
    >>> loss.forward().item(), wy.grad(loss, x).forward().tolist()
    (1.8125, [-0.125, 1.25])
    """

    def made(function: Callable[..., Any]) -> Kernel[Any, Any]:
        return Kernel(function, slopes, room, batch, tape_limit)

    return made if function is None else made(function)
