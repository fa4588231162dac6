"""`Composed`: an op that is a graph of other ops, which is its meaning in every engine."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from wyrm.errors import RegistrationError, WyrmError
from wyrm.graph.axes import Dim, Dims, open_axes, resolve
from wyrm.graph.base import ZERO, BaseNode, Gradient, P_co, describe, explained_by, label, reasons_alone
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_operands import HasIndexOperands, source_of
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, Decomposed
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.source_location import located_at, raised_at
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array
from wyrm.graph.weak_types import TRACED, default_type
from wyrm.ops.elementwise.elementwise import Axes, bind_class, common_dtype
from wyrm.ops.elementwise.formula import formula_value
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.subgraph import Subgraph, placeholder_like

# The compositions of so many ops are kept, by their attributes and the axes and dtypes of their operands.
_KEPT = 1024
_compositions: dict[Hashable, Subgraph] = {}
_changing = threading.Lock()


class Composed(Node[P_co, Axes], abstract=True):
    """An op that `compose` builds of other ops: values, loops, JAX's program and gradient follow from it.

    A subclass gives a `shape_rule`, a `dtype_rule` or a `vjp` where it refuses operands with a reason of its own or
    knows a cheaper gradient. With a kernel in its loop form the op is *fused*: native code runs the kernel, and the
    other engines compute the composition, which the kernel must equal.

    >>> class Softmin(wy.Composed):
    ...     def compose(self, x):
    ...         powers = (x.min(-1, keepdims=True) - x).exp()
    ...         return powers / powers.sum(-1, keepdims=True)
    >>> Softmin(wy.Constant([0.0, 0.0, 1e4])).forward().tolist()
    [0.5, 0.5, 0.0]
    """

    __slots__ = ()

    # Type checkers let a subclass name the operands: `def compose(self, x, weight)`.
    def compose(self, *operands: Any) -> Node:
        """Return the value as a graph of other ops, from `operands`, nodes with the axes and dtypes of the parents.

        It may be called once for all nodes with equal attributes and operands of equal axes and dtypes. It reads no
        parameters and inputs but its operands; `RegistrationError` names one that it does.
        """
        raise NotImplementedError

    @classmethod
    def _bind_members(cls) -> None:
        if cls.__dict__.get("method"):
            bind_class(cls)

    @classmethod
    def check_registration(cls) -> None:
        if cls.compose is Composed.compose:
            raise RegistrationError(f"op {cls.__name__} lacks compose, which returns its value as a graph of other ops")

    def composition(self) -> Subgraph:
        """Return the graph of the value, from placeholders for the operands; equal ops share one."""
        discrete = [parent for parent in self.parents if parent.dtype.kind != "f"]
        numbers = default_type(*discrete) if discrete else None
        attributes = tuple(map(_attribute_key, self.attribute_values().values()))
        key: Hashable = (type(self), tuple(map(_parent_key, self.parents)), attributes, numbers)
        try:
            found = _compositions.get(key)
        except TypeError:  # an attribute that cannot be hashed, such as an array
            return self._composition(numbers)
        if found is None:
            found = self._composition(numbers)
            with _changing:
                if len(_compositions) >= _KEPT:
                    del _compositions[next(iter(_compositions))]
                _compositions[key] = found
        return found

    def _composition(self, numbers: np.dtype | None) -> Subgraph:
        # Masks and integers meet numbers of the float type behind them, which placeholders do not have.
        token = TRACED.set(numbers if numbers is not None else TRACED.get())
        try:
            return self._composed_of_placeholders()
        finally:
            TRACED.reset(token)

    def _composed_of_placeholders(self) -> Subgraph:
        # The constructor explains an error by itself.
        with located_at(self.origin), explained_by(self) if hasattr(self, "dims") else reasons_alone(self):
            operands = [placeholder_like(parent, parent.dims, f"operand {i}") for i, parent in enumerate(self.parents)]
            # On placeholders as parents: `compose` may read them, and the graph must not keep those of this node.
            op = object.__new__(type(self))
            held = {"dtype", "dims", "origin", *self.attributes}  # while the node is built, it has no axes yet
            for name in held:
                if hasattr(self, name):
                    object.__setattr__(op, name, getattr(self, name))
            object.__setattr__(op, "parents", tuple(operands))
            try:
                value: object = op.compose(*operands)
            except WyrmError as error:
                line = raised_at(error)
                if line is None:  # an op of wyrm, whose lines its users do not know
                    raise
                raise type(error)(f"{error}\n  in compose at {line}: {line.source}") from None
        name = type(self).__name__
        if not isinstance(value, BaseNode):
            raise RegistrationError(
                f"op {name}: compose returned {type(value).__name__}; return a node made of operands"
            )
        composition = Subgraph(operands, [value], checked=isinstance(self, HasIndexOperands))
        given = set(operands)
        if not composition.checked:
            _check_indices(name, composition, given)
        for leaf in composition.order:
            if leaf.is_leaf and leaf not in given and not isinstance(leaf, Constant | IndexConstant):
                raise RegistrationError(
                    f"op {name}: compose reads {describe(leaf)}, which is no operand, so engines would not see it "
                    f"change and it would get no gradient: make it an operand, {name}(..., {label(leaf)})"
                )
        return composition

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        self._check_composition(self._open_sizes(shapes))

    def check_sizes_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., None]:
        own = type(self).check_sizes is Composed.check_sizes
        return (lambda shapes, shape: self._check_composition(sizes)) if own else self.check_sizes

    def _check_composition(self, sizes: Mapping[type[Dim], int]) -> None:
        """Check the sizes of the nodes of the composition whose axes are all known."""
        checking = self.composition().checking
        if not checking:
            return
        with explained_by(self):
            for node in checking:
                if set(open_axes(axis for each in (node, *node.parents) for axis in each.dims)) <= sizes.keys():
                    given = [resolve(parent.dims, sizes) for parent in node.parents]
                    node.check_sizes_for(sizes)(given, resolve(node.dims, sizes))

    def _open_sizes(self, shapes: Sequence[tuple[int, ...]]) -> dict[type[Dim], int]:
        """Return the sizes of the open axes of the operands, which have these shapes."""
        sizes: dict[Any, int] = {}
        for parent, operand in zip(self.parents, shapes, strict=True):
            pairs = zip(parent.dims, operand, strict=True)
            sizes.update({type(axis): size for axis, size in pairs if _is_open(axis)})
        return sizes

    def shape_rule(self) -> Dims:
        (value,) = self.composition().outputs
        dims: Dims = value.dims
        return dims

    def dtype_rule(self) -> np.dtype:
        (value,) = self.composition().outputs
        dtype: np.dtype = value.dtype
        floats = [parent for parent in self.parents if parent.dtype.kind == "f"]
        # Placeholders have no weak types.
        return common_dtype(floats) if dtype.kind == "f" and floats and floats[0].dtype == dtype else dtype

    def evaluate_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., Any]:
        return partial(self.evaluate_composition, self.composition(), sizes)

    def evaluate_composition(
        self,
        composition: Subgraph,
        sizes: Mapping[type[Dim], int],
        xp: ArrayNamespace,
        *operands: Array,
        shape: tuple[int, ...],
    ) -> Array:
        """Return the value of the composition, for these sizes of axes."""
        if 0 in shape:  # there is nothing to compute, nor perhaps a largest element
            return xp.zeros(shape, composition.outputs[0].dtype)
        try:
            (value,) = composition(xp, sizes, *operands)
        except WyrmError:
            with explained_by(self):
                composition(xp, sizes, *operands)
            raise
        return value

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        sizes = self._open_sizes([np.shape(operand) for operand in operands])
        return self.evaluate_composition(self.composition(), sizes, xp, *operands, shape=shape)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        value = self.compose(*self.parents)
        found: dict[BaseNode, Any] = {}
        batches: set[BaseNode] = set()
        for parent, operand, is_mapped in zip(self.parents, operands, mapped, strict=True):
            found[parent] = operand
            batches |= {parent} if is_mapped else set()
        for node in topological_order([value], found):
            if node in found:
                continue
            given, many = [found[parent] for parent in node.parents], [parent in batches for parent in node.parents]
            if any(many):
                found[node] = node.batched(given, many)
                batches.add(node)
                if found[node] is None:
                    return None
            else:
                same = all(map(operator.is_, given, node.parents))
                found[node] = node if same else node.rebuild(given)
        return found[value]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        own = [parent for i, parent in enumerate(self.parents) if i not in self.residual_parents]
        found = iter(composite_vjp(self.compose(*self.parents), gradient, own))
        return tuple(ZERO if i in self.residual_parents else next(found) for i in range(len(self.parents)))


def _parent_key(parent: Any) -> Hashable:
    return parent.dims, parent.dtype, parent.dtype.kind


def _attribute_key(value: object) -> Hashable:
    """Return what tells a value apart from others: True is no 1, and 0.0 no -0.0."""
    return type(value), value, repr(value)


def _check_indices(name: str, composition: Subgraph, operands: Collection[BaseNode]) -> None:
    """Raise `RegistrationError` for indices among the operands that no engine would check before it uses them."""
    for node in composition.order:
        for choice in node.index_operands():
            if source_of(node.parents[choice.operand]) in operands:
                raise RegistrationError(
                    f"op {name}: compose looks up elements by an operand, whose range no engine checks; look them up "
                    f"outside of the op, or derive it from HasIndexOperands, as wyrm.ops.products.embed.Embed is"
                )


def _is_open(axis: Any) -> bool:
    return isinstance(axis, Dim) and axis.size is None and not axis.derived


@JAX.register(Composed)
class ComposedForm(JaxForm):
    """The forms of the other ops; in a program of narrow activations, the results between them are wide."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        composition: Subgraph = node.composition()
        if 0 in shape:
            return lowering.xp.zeros(shape, node.dtype)
        if lowering.differentiable:
            (value,) = lowering.outputs(composition.outputs, dict(zip(composition.inputs, operands, strict=True)))
            return value
        # One by one, with no check of shapes: the operands may be the rows of one device.
        lowering = lowering.inside_op()
        values: dict[BaseNode, Any] = dict(zip(composition.inputs, operands, strict=True))
        for each in composition.order:
            if each not in values:
                form, parents = JAX.of(each), [values[parent] for parent in each.parents]
                if each.is_leaf:
                    values[each] = lowering.xp.asarray(bound_array(each))
                elif each.formula and type(form) is JaxForm:
                    values[each] = formula_value(lowering.xp, each, parents)
                else:
                    values[each] = form.lower(each, parents, resolve(each.dims, lowering.sizes), lowering)
        return values[composition.outputs[0]]


@LOOPS.register(Composed)
class ComposedLoops(Decomposed):
    """The form of composed ops: the nodes of the composition fuse with those around them."""

    def decompose(self, node: Composed) -> Node:
        node.composition()  # an error of the composition is the same in all engines
        return node.compose(*node.parents)
