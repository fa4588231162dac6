"""`wyrm.function`: a Python function over arrays, traced once for each kind of argument, and its derivatives."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, Generic, Literal, ParamSpec, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from wyrm.backends.numpy.reference import ReferenceRunner
from wyrm.errors import CompileError, DTypeError, NotDifferentiable, NotSet, ShapeError
from wyrm.functions.pytree import PyTreeDef, flatten, leaf_paths, unflatten
from wyrm.functions.tracing import Kind, Trace, argument_names, as_nodes, kinds_of, name_of, number_beside
from wyrm.grad.reverse import grad as gradient_of
from wyrm.node.base import BaseNode, describe
from wyrm.node.leaves import Constant, Parameter
from wyrm.node.state import cell_of, lend
from wyrm.node.storage import store, stored
from wyrm.node.traversal import topological_order
from wyrm.ops.pass_through import alias
from wyrm.ops.random import advance_step
from wyrm.types.exact import exact
from wyrm.types.rows import RowSparse

P = ParamSpec("P")
R = TypeVar("R")
Engine = Literal["reference", "native", "auto"]
Wrt = int | str | Sequence[int | str]
# A function keeps the graphs of so many kinds of arguments, those that were used last, and the arrays of fewer.
_KEPT_TRACES = 64
_KEPT_ARRAYS = 16


class Function(Generic[P, R]):
    """A function that `wyrm.function` has made differentiable; see there."""

    __name__: str

    def __init__(self, function: Callable[P, R], engine: Engine = "reference", derives: bool = False) -> None:
        if engine not in ("reference", "native", "auto"):
            raise ValueError(f"engine is 'reference', 'native' or 'auto', not {engine!r}")
        if not callable(function):
            raise TypeError(f"wyrm.function takes a function, not {function!r}")
        functools.update_wrapper(self, function)
        self.function = function
        self.engine: Engine = engine
        # Whether it takes derivatives, for which the parameters of a module are arguments of their own too.
        self._derives = derives
        self._calls: dict[Any, _Specialization] = {}
        self._last: _Specialization | None = None
        # A function may call itself while it is traced.
        self._lock = threading.RLock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result for these arguments, its nodes as arrays; of nodes, the nodes that it is computed by."""
        last = self._last
        if last is not None and not kwargs and last.fits(args):
            with self._lock:
                again: R = last.answer(last.again(args))
            return again
        leaves, structure = self._leaves(args)
        if any(isinstance(leaf, BaseNode) for leaf in leaves):
            return self.function(*self._own(args), **kwargs)
        with self._lock:
            call = self._call(leaves, structure, kwargs)
            result: R = call.trace.of(leaves) if call.trace.open else call.answer(call(leaves))
        return result

    def _own(self, args: Sequence[Any]) -> Any:
        """The arguments as nodes that are in no other place.

        What else reaches the caller's nodes does not reach these, so a derivative by them is by the arguments alone.
        """
        leaves, structure = self._leaves(args, parameters=True)
        modules = [part.has_module and not self._derives for part in structure.inside for _ in range(part.leaves)]
        return unflatten(
            structure,
            [
                leaf if kept and isinstance(leaf, Parameter) else alias(leaf)
                for leaf, kept in zip(as_nodes(leaves, lambda: self._names(structure)), modules, strict=True)
            ],
        )

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Trace:
        """The graph of a call with such arguments: `inputs` and `outputs`, nodes in the order of the leaves.

        Raises `TypeError` where an argument is a node, `ShapeError` where the function closes over an argument of
        another one that is being traced.
        """
        leaves, structure = self._leaves(args)
        for leaf in leaves:
            if isinstance(leaf, BaseNode):
                raise TypeError(
                    f"{name_of(self.function)}.trace takes arrays like those of a call, not {describe(leaf)}; call the "
                    f"function with nodes to get the nodes that it is computed by"
                )
        with self._lock:
            trace = self._call(leaves, structure, kwargs).trace
        if trace.open:
            raise ShapeError(
                f"{name_of(self.function)} closes over an argument of a function that is being traced, so it has no "
                f"graph of its own; call it, or hand that over as an argument"
            )
        return trace

    def grad(self, wrt: Wrt = 0, *, allow_unused: bool = True) -> Function[P, Any]:
        """The function of the same arguments that gives the gradient of the result, a scalar, by some of them.

        `wrt` is a position or the name of an argument, or a tuple of those; the gradient has the structure of the
        argument, or is a tuple of such. By an argument that the result does not depend on it is zeros, or with
        `allow_unused=False` an `UnusedParameter`. Raises, when it is called, `ShapeError` for a result that is no
        scalar, and `NotDifferentiable` for integers and masks.

        >>> square = wy.function(lambda x: x * x)
        >>> float(square.grad()(3.0)), float(square.grad().grad()(3.0))
        (6.0, 2.0)
        """
        return self._derived("grad", wrt, allow_unused, lambda value, gradients: gradients)

    def value_and_grad(self, wrt: Wrt = 0, *, allow_unused: bool = True) -> Function[P, tuple[R, Any]]:
        """The function that gives the result and its gradient (see `grad`), computed together.

        >>> value, gradient = wy.function(lambda x: x * x).value_and_grad()(3.0)
        >>> float(value), float(gradient)
        (9.0, 6.0)
        """
        return self._derived("value_and_grad", wrt, allow_unused, lambda value, gradients: (value, gradients))

    def _derived(self, what: str, wrt: Wrt, allow_unused: bool, answer: Callable[[Any, Any], Any]) -> Function[P, Any]:
        single = isinstance(wrt, int | str)

        @functools.wraps(self.function)
        def derived(*args: Any, **kwargs: Any) -> Any:
            positions = positions_of(self.function, wrt, len(args))
            parts = [flatten(args[position], f"argument {position}") for position in positions]
            wanted = [leaf for leaves, _ in parts for leaf in leaves]
            self._check_wanted(wanted)
            value = self._node(self.function(*args, **kwargs), what)
            if value.dims != ():
                raise ShapeError(
                    f"{what} of {name_of(self.function)} takes a result that is a scalar, not {describe(value)}: "
                    f"reduce it with .sum() or .mean(), or ask wy.vjp or wy.jacobian"
                )
            rest = iter(gradient_of(value, wanted, allow_unused=allow_unused))
            found = tuple(unflatten(structure, [next(rest) for _ in leaves]) for leaves, structure in parts)
            return answer(value, found[0] if single else found)

        return Function(derived, self.engine, derives=True)

    def _node(self, value: Any, what: str) -> Any:
        """The result of the function as a node."""
        if isinstance(value, BaseNode):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise ShapeError(
                f"{what} of {name_of(self.function)} takes a result that is one scalar, not {type(value).__name__}"
            )
        return Constant(float(value))

    def _check_wanted(self, wanted: Sequence[Any]) -> None:
        for leaf in wanted:
            if not isinstance(leaf, BaseNode):
                raise NotDifferentiable(f"{leaf!r} is static in this call, so there is no gradient by it")
            if leaf.dtype.kind != "f":
                raise NotDifferentiable(
                    f"{describe(leaf)} is an argument of {name_of(self.function)} that holds {leaf.dtype}, which has "
                    f"no gradient; choose the others with wrt="
                )

    # --- calls ----------------------------------------------------------------------------------------------------

    def _leaves(self, args: Sequence[Any], parameters: bool = False) -> tuple[list[Any], PyTreeDef]:
        leaves: list[Any] = []
        parts: list[PyTreeDef] = []
        for i, argument in enumerate(args):
            found, structure = flatten(argument, f"argument {i} of {name_of(self.function)}", parameters)
            leaves += found
            parts.append(structure)
        return leaves, PyTreeDef(tuple, (), tuple(parts))

    def _call(self, leaves: Sequence[Any], structure: PyTreeDef, static: dict[str, Any]) -> _Specialization:
        kinds = tuple(kinds_of(leaves, lambda: self._names(structure)))
        key: Hashable = (
            structure,
            kinds,
            tuple((name, exact(static[name])) for name in sorted(static)) if static else (),
        )
        try:
            call = self._calls.get(key)
        except TypeError:
            raise DTypeError(
                f"{name_of(self.function)} was called with {', '.join(static)} by keyword: such arguments are static "
                f"and have to be hashable; give arrays by position"
            ) from None
        if call is None:
            trace = Trace(self.function, structure, kinds, static)
            call = _Specialization(trace, kinds, self.engine, plain=structure.is_flat and not static)
            if trace.open:  # another call closes over other nodes
                return call
        self._calls.pop(key, None)
        self._calls[key] = self._last = call  # the last used come last
        if len(self._calls) > _KEPT_TRACES:
            del self._calls[next(iter(self._calls))]
        if len(self._calls) > _KEPT_ARRAYS:
            next(islice(reversed(self._calls.values()), _KEPT_ARRAYS, None)).release()
        return call

    def _names(self, structure: PyTreeDef) -> list[str]:
        names = argument_names(self.function, len(structure.inside))
        return [place for part, name in zip(structure.inside, names, strict=True) for place in leaf_paths(part, name)]

    @property
    def graph(self) -> str:
        """The nodes of the last call, a line for each; `NotSet` before the first."""
        from wyrm.view.text import to_text

        return to_text(self._known().trace.outputs)

    @property
    def source(self) -> str:
        """The source that is generated for the last call; `NotSet` before the first."""
        source: str = self._known().native.source
        return source

    def _known(self) -> _Specialization:
        if self._last is None:
            raise NotSet(f"{name_of(self.function)} has not been called yet, so it is not known for what arguments")
        return self._last

    def __repr__(self) -> str:
        return f"<wyrm.function {name_of(self.function)}>"


def positions_of(function: Callable[..., Any], wrt: Wrt, count: int) -> list[int]:
    """The positions of the arguments that `wrt` chooses, in a call with `count` of them; `ValueError` for others."""
    names = argument_names(function, count)
    found = []
    for which in (wrt,) if isinstance(wrt, int | str) else tuple(wrt):
        if isinstance(which, str):
            if which not in names:
                raise ValueError(f"{name_of(function)} has no argument {which!r}, but {', '.join(names)}")
            found.append(names.index(which))
        elif not -count <= which < count:
            raise ValueError(f"{name_of(function)} was called with {count} arguments, so there is none {which}")
        else:
            found.append(which % count)
    return found


def over_nodes(function: Any, refusal: str) -> Callable[..., Any]:
    """A function over nodes, which one of `wyrm.function` holds; `TypeError` for what is none."""
    plain = function.function if isinstance(function, Function) else function
    if not callable(plain):
        raise TypeError(f"{refusal}, not {function!r}")
    return plain


def evaluated(function: Callable[..., Any], like: Callable[..., Any]) -> Function[..., Any]:
    """A function of the same kind as another: on the same engine, and run once for each kind of arguments."""
    return Function(function, like.engine if isinstance(like, Function) else "reference", derives=True)


class _Specialization:
    """What runs a function for one kind of arguments."""

    def __init__(self, trace: Trace, kinds: Sequence[Kind], engine: Engine, plain: bool) -> None:
        self.trace = trace
        self.engine: Engine = engine
        # The shapes and dtypes where all arguments are arrays, as they are in the calls that have to be quick.
        self._arrays = kinds if plain else None
        self._dtypes = [dtype for _, dtype in kinds]
        self._integers = [position for position, dtype in enumerate(self._dtypes) if dtype.kind == "i"]
        self._storages = [stored(leaf) for leaf in trace.inputs]
        self._runner: ReferenceRunner | None = None

    @functools.cached_property
    def native(self) -> Any:
        """The compiled form."""
        from wyrm.train.fixed_shape import FixedShapeProgram

        return FixedShapeProgram(self.trace.outputs, self.trace.inputs)

    def release(self) -> None:
        """Free the arrays of the last call; another call makes them anew."""
        native = self.__dict__.get("native")
        if native is not None:
            native.release()
        if self._runner is not None:
            self._runner = None
            for node in topological_order(self.trace.outputs):
                cell = cell_of(node)
                if cell is not None and not cell.plans():
                    lend(node, None)
        for storage in self._storages:
            storage.array = None

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether these arguments are arrays and numbers like those that this was made for, where that is quick."""
        kinds = self._arrays
        if kinds is None or len(args) != len(kinds):
            return False
        numbers: list[np.dtype[Any]] = []
        for position, (shape, dtype) in enumerate(kinds):
            argument = args[position]
            if type(argument) is np.ndarray:
                if argument.shape != shape or argument.dtype is not dtype:
                    return False
            elif type(argument) is float and not shape:
                numbers.append(dtype)
            else:
                return False
        if not numbers:
            return True
        number = number_beside(args)
        return all(dtype is number for dtype in numbers)

    def answer(self, found: list[Any]) -> Any:
        """The result of the function with these leaves."""
        structure = self.trace.structure
        return found[0] if structure.kind is None else unflatten(structure, found)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        if not self.trace.outputs:
            return []
        arrays = [np.asarray(leaf, dtype, order="C") for leaf, dtype in zip(leaves, self._dtypes, strict=True)]
        for position in self._integers:
            self.trace.inputs[position].set(arrays[position])  # which checks them
        if self.engine == "reference":
            return [array[()] if array.ndim == 0 else array for array in self._by_reference(arrays)]
        return self._natively(arrays)

    def again(self, args: Sequence[Any]) -> list[Any]:
        """As a call with arguments that fit."""
        if self.engine != "native" or self._integers or not self.trace.outputs:
            return self(args)
        native = self.native
        found: list[Any] = native(args, advance_step() if native.draws else 0)
        return found

    def _natively(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        native = self.native
        if self.engine == "auto":
            try:
                native.prepare()
            except CompileError as error:
                warnings.warn(f"{error}; the reference engine computes it instead", RuntimeWarning, stacklevel=4)
                self.engine = "reference"
                return self(arrays)
            self.engine = "native"
        answer: list[Any] = native(arrays, advance_step() if native.draws else 0)
        return answer

    def _by_reference(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        if self._runner is None:
            self._runner = ReferenceRunner(self.trace.outputs)
        for storage, array in zip(self._storages, arrays, strict=True):
            if array.dtype.kind != "i":
                store(storage, array.copy() if storage.array is None else array)
        if self._runner.random:
            advance_step()
        plan = self._runner.run()
        values = [plan.value(node) for node in self.trace.outputs]
        return [value.dense() if isinstance(value, RowSparse) else np.array(value) for value in values]


@overload
def function(function: Callable[P, R], /, *, engine: Engine = "reference") -> Function[P, R]: ...
@overload
def function(*, engine: Engine = "reference") -> Callable[[Callable[P, R]], Function[P, R]]: ...
def function(function: Any = None, /, *, engine: Engine = "reference") -> Any:
    """Make a Python function over nodes a function over arrays that can be differentiated; a decorator.

    The function runs once for each combination of shapes, dtypes and static arguments, on nodes that stand for its
    arguments, and is not run again for others of the same kind: what it does besides computing, such as printing,
    happens once. Arguments by position are arrays, numbers, tuples, lists, dicts and dataclasses of them, and modules,
    of which the parameters count; so is the result, and the gradient by a module is a module. Arguments by keyword are
    static: they may be anything that is hashable, and another value is another trace.
    A Python number takes the float type of the arrays beside it. Called with nodes, or with nodes and arrays, it gives
    nodes; so it does inside another function that is being traced, where it closes over the arguments of that one.

    A derivative is by the function's own arguments: what is closed over is constant to it, and a node that is given as
    two arguments counts for each apart.

    `engine` is "reference", which needs no compiling; "native", fast when called often; or "auto", which is native
    where that can be compiled, and otherwise warns and goes on with the reference.

    Raises `DTypeError` for arguments of other types, `ShapeError` for a result that depends on the arguments of another
    call, `CompileError` where native code cannot be made, and what building the graph raises.

    >>> @wy.function
    ... def loss(weights, x):
    ...     return ((x @ weights["w"]).tanh() * weights["scale"]).sum()
    >>> weights = {"w": np.array([0.5, 0.25]), "scale": 2.0}
    >>> gradient = loss.grad()(weights, np.array([[1.0, 2.0]]))
    >>> sorted(gradient), gradient["w"].round(3).tolist()
    (['scale', 'w'], [0.84, 1.68])
    """
    if function is None:
        return functools.partial(Function, engine=engine)
    return Function(function, engine)


def show(function: Function[..., Any]) -> None:
    """Print what a function computes, as it was last called, and its gradient, side by side.

    `dt` is the gradient of the result by `t`, and the gradients are computed from the last line to the first. Raises
    `NotSet` before the first call, `ShapeError` for a result that is not one array, and `NotDifferentiable` where an op
    has no gradient.

    >>> @wy.function
    ... def energy(x, y):
    ...     return (x * y).sin() + y
    >>> energy(1.0, 2.0).round(3)
    np.float32(2.909)
    >>> wy.show(energy)  # doctest: +ELLIPSIS
    forward, top to bottom  backward, bottom to top
    x             ()        dx = dt1 * y
    y             ()        dy = dt3 + dt1 * x
    t1 = x * y    ()        dt1 = dt3 * cos(t1)...
    t2 = sin(t1)  ()        dt2 = dt3...
    t3 = t2 + y   ()        dt3 = 1.0...
    """
    from wyrm.view.derivation import to_derivation

    if not isinstance(function, Function):
        raise TypeError(f"wyrm.show takes a function made by wyrm.function, not {function!r}")
    outputs = function._known().trace.outputs
    if len(outputs) != 1:
        raise ShapeError(f"show takes a function with one array as result, {name_of(function)} has {len(outputs)}")
    print(to_derivation(outputs[0]))  # noqa: T201  # what it is for
