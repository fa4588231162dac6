"""`wyrm.function`: a Python function over arrays that is traced once per argument signature, and its derivatives."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, Generic, Literal, overload

import numpy as np
from typing_extensions import ParamSpec, TypeVar

from wyrm.engines.registry import engine_class
from wyrm.errors import DTypeError, MissingValue, NotDifferentiable, ShapeError
from wyrm.functions.pytree import ArrayTree, PyTreeDef, TreeLeaf, Untyped, flatten, leaf_paths, unflatten
from wyrm.functions.tracing import (
    UNCOMPILED,
    SpecializedFunction,
    Trace,
    Wrt,
    argument_names,
    argument_nodes,
    kinds_of,
    name_of,
    positions_of,
    split_aux,
)
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.schedule import Schedule
from wyrm.graph.text import text_of
from wyrm.graph.typing import FloatArray
from wyrm.ops.control.pass_through import alias
from wyrm.ops.gradients.reverse import grad as gradient_of
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.imports import Late
from wyrm.support.memory import KEPT_BYTES
from wyrm.support.texts import exact

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
# `P` and `R` for `function` itself, without defaults, which ty takes in place of what it infers.
Inputs = ParamSpec("Inputs")
Outputs = TypeVar("Outputs")

# "reference", "auto", or the name of an engine that compiles.
FunctionEngine = Literal["reference", "native", "auto"]
# How many of its last used traces a function keeps; their arrays take at most `KEPT_BYTES` beside the last call's.
_KEPT_TRACES = 16


class Function(Generic[P, R]):
    """A differentiable function over arrays, made by `wyrm.function`; see there."""

    __name__: str

    def __init__(
        self, function: Callable[P, R], engine: FunctionEngine | str = "reference", derives: bool = False
    ) -> None:
        if engine not in UNCOMPILED:
            engine_class(engine, "reference", "auto")
        if not callable(function):
            raise TypeError(f"wyrm.function takes a function, not {function!r}")
        functools.update_wrapper(self, function)
        self.function = function
        self.engine: str = engine
        # A function that takes derivatives traces each parameter of a module as an argument, to differentiate by it.
        self._derives = derives
        self._calls: dict[object, SpecializedFunction] = {}
        self._last: SpecializedFunction | None = None
        # What `_derived` made it from, for pickles.
        self._recipe: tuple[Any, ...] | None = None
        # Reentrant, since a function may call itself while it is traced.
        self._lock = threading.RLock()

    @overload
    def __call__(self: Function[P, Untyped], *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self: Function[..., Untyped], first: ArrayTree, *more: ArrayTree, **static: object) -> Any: ...
    @overload
    def __call__(self: Function[..., Node], first: ArrayTree, *more: ArrayTree, **static: object) -> FloatArray: ...
    @overload
    def __call__(
        self: Function[..., tuple[Node, Untyped]], first: ArrayTree, *more: ArrayTree, **static: object
    ) -> tuple[FloatArray, Any]: ...
    @overload
    def __call__(
        self: Function[..., tuple[Node, Node]], first: ArrayTree, *more: ArrayTree, **static: object
    ) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result as arrays; called with nodes, return the nodes that compute it."""
        last = self._last
        if last is not None and not kwargs:
            with self._lock:
                found = last.fast_call(args)
                if found is not None:
                    return found
                if last.fits(args):
                    return last.call(last(args))
        leaves, structure = self._leaves(args)
        if any(isinstance(leaf, BaseNode) for leaf in leaves):
            return self.function(*self._fresh_arguments(args), **kwargs)
        with self._lock:
            call = self._specialized(leaves, structure, kwargs)
            return call.trace.of(leaves) if call.trace.open else call.call(call(leaves))

    def _fresh_arguments(self, args: Sequence[object]) -> Any:
        """Return the arguments as fresh nodes that nothing else refers to.

        A derivative with respect to them then ignores every other path to the caller's nodes.
        """
        leaves, structure = self._leaves(args, parameters=True)
        modules = [part.has_module and not self._derives for part in structure.inside for _ in range(part.leaves)]
        return unflatten(
            structure,
            [
                leaf if kept and isinstance(leaf, Parameter) else alias(leaf)
                for leaf, kept in zip(argument_nodes(leaves, lambda: self._leaf_names(structure)), modules, strict=True)
            ],
        )

    def trace(self, *args: object, **kwargs: object) -> Trace:
        """Return the graph of a call with these arguments: `inputs` and `outputs`, in the order of their leaves.

        Raise `TypeError` for an argument that is a node, and `ShapeError` if the function closes over an argument of
        another function that is being traced.

        >>> [node.op_name() for node in wy.function(lambda x: 2.0 * x).trace(1.0).outputs]
        ['multiply']
        """
        leaves, structure = self._leaves(args)
        for leaf in leaves:
            if isinstance(leaf, BaseNode):
                raise TypeError(
                    f"{name_of(self.function)}.trace takes arrays, not {describe(leaf)}; call the "
                    f"function itself with nodes to get the nodes of its result"
                )
        with self._lock:
            trace = self._specialized(leaves, structure, kwargs).trace
        if trace.open:
            raise ShapeError(
                f"{name_of(self.function)} closes over an argument of another function that is being traced, so it has "
                f"no graph of its own; call it, or pass the value as an argument"
            )
        return trace

    @explains_keywords
    def grad(self, wrt: Wrt = 0, *, allow_unused: bool = True, has_aux: bool = False) -> Function[P]:
        """Return a function of the same arguments that computes the gradient of the scalar result.

        `wrt` is the position or name of an argument, or a tuple of those. The gradient has the structure of that
        argument, or is a tuple of such structures. If the result does not depend on an argument, its gradient is
        zero, or `UnusedParameter` is raised with `allow_unused=False`. With `has_aux` the function returns a pair
        (scalar, aux), where aux is anything made of arrays, and the result is the pair (gradient, aux).

        A call raises `ShapeError` if the result is not a scalar, or with `has_aux` not a pair, and `NotDifferentiable`
        for an argument of integers or booleans.

        >>> square = wy.function(lambda x: x * x)
        >>> float(square.grad()(3.0)), float(square.grad().grad()(3.0))
        (6.0, 2.0)
        """
        return self._derived("grad", wrt, allow_unused, has_aux, with_value=False)

    @explains_keywords
    def value_and_grad(
        self, wrt: Wrt = 0, *, allow_unused: bool = True, has_aux: bool = False
    ) -> Function[P, tuple[R, Any]]:
        """Return a function that computes the result and its gradient (see `grad`) together.

        With `has_aux` the function returns a pair (scalar, aux), and the result is ((scalar, aux), gradient).

        >>> value, gradient = wy.function(lambda x: x * x).value_and_grad()(3.0)
        >>> float(value), float(gradient)
        (9.0, 6.0)
        """
        return self._derived("value_and_grad", wrt, allow_unused, has_aux, with_value=True)

    def _derived(self, what: str, wrt: Wrt, allow_unused: bool, has_aux: bool, with_value: bool) -> Function[P]:
        single = isinstance(wrt, int | str)

        @functools.wraps(self.function)
        def derived(*args: Any, **kwargs: Any) -> Any:
            positions = positions_of(self.function, wrt, len(args))
            parts = [flatten(args[position], f"argument {position}") for position in positions]
            wanted = self._differentiable([leaf for leaves, _ in parts for leaf in leaves])
            result, aux = split_aux(self.function(*args, **kwargs), has_aux, self.function)
            value = self._node(result, what)
            if value.dims != ():
                raise ShapeError(
                    f"{what} of {name_of(self.function)} needs a scalar result, not {describe(value)}: "
                    f"reduce it with .sum() or .mean(), or use wy.vjp or wy.jacobian"
                )
            rest = iter(gradient_of(value, wanted, allow_unused=allow_unused))
            found = tuple(unflatten(structure, [next(rest) for _ in leaves]) for leaves, structure in parts)
            gradient = found[0] if single else found
            if not has_aux:
                return (value, gradient) if with_value else gradient
            return ((value, aux), gradient) if with_value else (gradient, aux)

        made: Function[P] = Function(derived, self.engine, derives=True)
        made._recipe = self, what, wrt, allow_unused, has_aux, with_value
        return made

    def _node(self, value: object, what: str) -> Any:
        """Return the result of the function as a node."""
        if isinstance(value, BaseNode):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise ShapeError(f"{what} of {name_of(self.function)} needs a scalar result, not {type(value).__name__}")
        return Constant(float(value))

    def _differentiable(self, leaves: Sequence[TreeLeaf]) -> list[Node]:
        """Return the leaves; raise `NotDifferentiable` unless all are float nodes."""
        found: list[Node] = []
        for leaf in leaves:
            if not isinstance(leaf, BaseNode):
                raise NotDifferentiable(f"{leaf!r} is static in this call, so it has no gradient")
            if not isinstance(leaf, Node) or leaf.dtype.kind != "f":
                raise NotDifferentiable(
                    f"{describe(leaf)} is an argument of {name_of(self.function)} with dtype {leaf.dtype}, which has "
                    f"no gradient; select float arguments with wrt="
                )
            found.append(leaf)
        return found

    # --- calls ----------------------------------------------------------------------------------------------------

    def _leaves(self, args: Sequence[object], parameters: bool = False) -> tuple[list[TreeLeaf], PyTreeDef]:
        leaves: list[TreeLeaf] = []
        parts: list[PyTreeDef] = []
        for i, argument in enumerate(args):
            found, structure = flatten(argument, f"argument {i} of {name_of(self.function)}", parameters)
            leaves += found
            parts.append(structure)
        return leaves, PyTreeDef(tuple, (), tuple(parts))

    def _specialized(
        self, leaves: Sequence[TreeLeaf], structure: PyTreeDef, static: dict[str, object]
    ) -> SpecializedFunction:
        kinds = tuple(kinds_of(leaves, lambda: self._leaf_names(structure)))
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
                f"and must be hashable; pass arrays by position"
            ) from None
        if call is None:
            trace = Trace(self.function, structure, kinds, static)
            call = SpecializedFunction(trace, kinds, self.engine, plain=structure.is_flat and not static)
            if trace.open:  # it belongs to the enclosing trace, so another call cannot use it
                return call
        self._calls.pop(key, None)
        self._calls[key] = self._last = call  # most recently used last
        if len(self._calls) > _KEPT_TRACES:
            del self._calls[next(iter(self._calls))]
        holding = [other for other in islice(reversed(self._calls.values()), 1, None) if other.holds_arrays]
        held = call.bytes if holding else 0
        for other in holding:
            held += other.bytes
            if held > KEPT_BYTES:
                other.release()
        return call

    def _leaf_names(self, structure: PyTreeDef) -> list[str]:
        names = argument_names(self.function, len(structure.inside))
        return [path for part, name in zip(structure.inside, names, strict=True) for path in leaf_paths(part, name)]

    @property
    def graph(self) -> str:
        """The nodes of the last call, one per line. Raise `MissingValue` before the first call."""
        schedule = Schedule(self._last_call().trace.outputs)
        return text_of(schedule.nodes, schedule.parents)

    @property
    def source(self) -> str:
        """The source generated for the last call. Raise `MissingValue` before the first call."""
        return self._last_call().compiled.source

    def _last_call(self) -> SpecializedFunction:
        if self._last is None:
            raise MissingValue(
                f"{name_of(self.function)} has not been called yet, so it has no trace to show: call it first"
            )
        return self._last

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle what was decorated as the name in its module, and others as their function, which has such a name."""
        name: str = getattr(self.function, "__qualname__", "")
        named: Any = sys.modules.get(self.function.__module__)
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is self:
            return name
        if self._recipe is not None:
            return Function._derived, self._recipe
        return Function, (self.function, self.engine, self._derives)

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_function")

    def __repr__(self) -> str:
        return f"<wyrm.function {name_of(self.function)}>"


def function_of_nodes(function: object, refusal: str) -> Callable[..., Any]:
    """Return the underlying Python function of a `wyrm.function`, or `function` itself; `TypeError` if not callable."""
    plain = function.function if isinstance(function, Function) else function
    if not callable(plain):
        raise TypeError(f"{refusal}, not {function!r}")
    return plain


def evaluated(function: Callable[..., Any], like: Callable[..., object]) -> Function:
    """Return `function` as a `wyrm.function` on the engine of `like`."""
    return Function(function, like.engine if isinstance(like, Function) else "reference", derives=True)


@overload
def function(
    function: Callable[Inputs, Outputs], /, *, engine: FunctionEngine | str = "reference"
) -> Function[Inputs, Outputs]: ...
@overload
def function(
    *, engine: FunctionEngine | str = "reference"
) -> Callable[[Callable[Inputs, Outputs]], Function[Inputs, Outputs]]: ...
def function(function: Any = None, /, *, engine: FunctionEngine | str = "reference") -> Any:
    """Turn a Python function over nodes into a differentiable function over arrays; a decorator.

    The function is traced: it runs once per signature, on nodes that stand for its arguments. The signature is the
    shapes and dtypes of the arguments and the values of the static ones. Later calls reuse the graph, so side effects
    such as printing happen once. Positional arguments are arrays, numbers, modules (their parameters are the leaves),
    or tuples, lists, dicts and dataclasses of them. The result has one of these forms too, and the gradient with
    respect to a module is a module. Keyword arguments are static: any hashable value; a new value causes a new trace.
    A Python number takes the float dtype of the arrays beside it. Called with nodes, or inside another function that
    is being traced, the function returns nodes; there it may close over the arguments of the outer function.

    Derivatives are with respect to the function's own arguments. Closed-over values are constants, and a node passed
    as two arguments counts as two variables.

    The last 16 signatures keep their graphs, and the last of these their arrays too: as many as take 128 MiB together,
    and those of the last call in any case. Another signature is traced again.

    `engine` is "reference", which compiles nothing; "native", fast for repeated calls; "auto", native if it compiles,
    else the reference engine with a warning; or another engine of `wyrm.compile`.

    Raise `DTypeError` for arguments of other types, `ShapeError` if the result depends on the arguments of another
    call, `CompileError` if native code cannot be generated, and whatever building the graph raises.

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
