"""Graphs as functions of JAX arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wyrm.engines.evaluated import check_shape
from wyrm.engines.jax.divided_tables import DividedTables, largest, largest_of_all
from wyrm.engines.jax.host import call_evaluate, evaluated_in_numpy, refusal, untraceable
from wyrm.engines.jax.kernels.forms import arrays_of_kernel, elementwise, jax_form, value_by_kernel
from wyrm.engines.jax.loops import NO_ATTRIBUTES, Attributes, Repeat, Values, compute_repeat, find_repeats
from wyrm.engines.jax.namespace import JaxNamespace, namespace, narrowed
from wyrm.engines.jax.partial_sums import PartialSum, PartialSums, whole
from wyrm.engines.native.kernels.values import NotCompiled
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.jax_form import JAX, JaxForm, Unjoined
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.ops.elementwise.formula import formula_value
from wyrm.ops.kernels.loops_jax import number_of_blocks
from wyrm.ops.products.product import matmul
from wyrm.ops.random.philox import Counter
from wyrm.ops.random.philox_jax import step_words
from wyrm.support.imports import jax

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import Sharding

Sizes = Mapping[type[Dim], int]
_NO_SIZES: Sizes = MappingProxyType({})
NO_PLACES: Mapping[type[Dim], Any] = MappingProxyType({})
# The fewest equal layers that become a loop, of which XLA compiles one. A loop of 8 small layers of GPT-2 takes 0.93
# times the time and 0.64 times the memory of code for each layer; one of 12 large layers, 1.04 times the time and 0.9
# times the memory.
FEWEST_REPEATS = 2
# XLA cuts a name at "@"; "/" parts names.
_UNSAFE = re.compile(r"[^\w.\[\]-]")
# Returns the value of a node, placed on the devices that its axes are sharded over.
Place = Callable[[BaseNode, Any], Any]
# Tells the host, from a step, which indices among the operands of a node are out of range, for these sizes of axes.
Report = Callable[[BaseNode, list[Any], Sizes], None]


class Lowerer:
    """Computes nodes from the values of leaves, as JAX traces or runs it.

    An op whose `evaluate` JAX cannot trace is computed by its kernel. Without one that JAX has a form of, the program
    calls its `evaluate`, with a warning.
    `narrow` is the dtype of activations, such as bfloat16, if it is not the graph's; nodes of `wide` keep the graph's.
    `place` is applied to the value of each node; `report` is called before a value is computed; `sums` computes sums
    over rows of several devices, `tables` looks up rows that devices own. Ops that work on a block of rows at a time
    choose blocks of `block_bytes`, by default 4 MB on CPUs and 1 GB elsewhere; the rows are sharded over `shards`
    devices or a divisor of them. At least `repeats` equal layers are computed in a loop. XLA's code has the `names` of
    nodes.
    """

    # Whether programs may call NumPy.
    calls_numpy = True
    # Whether attention of long sequences is computed in tiles.
    uses_tiles = True

    def __init__(
        self,
        sizes: Sizes = _NO_SIZES,
        *,
        narrow: Any = None,
        wide: frozenset[BaseNode] = frozenset(),
        place: Place | None = None,
        sums: PartialSums | None = None,
        tables: DividedTables | None = None,
        sharding: Sharding | None = None,
        shards: int = 1,
        block_bytes: int | None = None,
        repeats: int = FEWEST_REPEATS,
        places: Mapping[type[Dim], Any] = NO_PLACES,
        report: Report | None = None,
        names: Mapping[BaseNode, str] = MappingProxyType({}),
    ) -> None:
        self.sizes = sizes
        self._narrow, self._wide, self._place, self._sums, self._tables = narrow, wide, place, sums, tables
        # The dtype of the operands of products, inside composed ops too.
        self._of_products = narrow
        self._sharding = sharding
        self._shards, self._block_bytes, self._repeats = shards, block_bytes, repeats
        self._places, self._report, self._names = places, report, names
        self._attributes = NO_ATTRIBUTES

    @property
    def xp(self) -> JaxNamespace:
        """The array namespace."""
        return namespace()

    @property
    def differentiable(self) -> bool:
        """Whether JAX may differentiate the function."""
        return False

    def places(self, node: BaseNode) -> Any:
        """Return the place of each index along a node's first axis, if it is another one; see `Lowering`."""
        return self._places.get(type(node.dims[0])) if self._places and node.dims else None

    def attribute(self, node: BaseNode, name: str) -> Any:
        """Return an attribute of a node; it is traced if it differs between equal layers that share code."""
        return self._attributes.get(node, name)

    def dtype(self, node: BaseNode) -> Any:
        """Return the dtype of a node's value."""
        if self._narrow is None or node.dtype.kind != "f" or node in self._wide or len(node.dims) < 2:
            return node.dtype
        if JAX.of(node).exact:
            return node.dtype
        return self._narrow

    def product(self, x: Any, y: Any) -> Any:
        """Return `x @ y` with operands in the dtype of activations and sums in float32 or wider."""
        narrow = self._of_products
        return matmul(*(x, y) if narrow is None else (x.astype(narrow), y.astype(narrow)))

    def elementwise(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of numbers gives for the elements of arrays; see `Lowering`."""
        return elementwise(function, *arguments)

    def kernel(self, kernel: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Return what a kernel returns, and the arrays that it may write to; see `Lowering`."""
        return jax_form(kernel)(*arguments)

    def by_kernel(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> Any:
        """Return the value of an op by the kernel of its loop form; see `Lowering`."""
        return value_by_kernel(node, operands, shape)

    def arrays_of_kernel(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
        """Return the arguments of the kernel of an op as it leaves them; see `Lowering`."""
        return arrays_of_kernel(node, operands, shape)

    def inside_op(self) -> Self:
        """Return what lowers the nodes that an op is composed of; see `Lowering`."""
        if self._narrow is None:
            return self
        inside = copy(self)
        inside._narrow = None
        return inside

    def blocks(self, rows: int, size: int) -> tuple[int, int]:
        """Return the number of blocks for values of `size` bytes, and the number of devices that share the rows."""
        shards = 1 if rows % self._shards else self._shards
        block_bytes = self._block_bytes or (2**22 if jax.default_backend() == "cpu" else 2**30)
        return number_of_blocks(rows // shards, size // shards, block_bytes), shards

    def largest(self, node: BaseNode, x: Any) -> Any:
        """Return the indices of the largest elements; see `Lowering`."""
        ranked: Any = node
        axis, moved = ranked.axis, self.xp.moveaxis(x, ranked.axis, -1)
        if self._sharding is not None:
            placed = self._sharding.placed_axes(node.parents[0].dims, x.shape)
            if placed[axis]:
                others = tuple(mesh_axes or None for i, mesh_axes in enumerate(placed) if i != axis)
                return largest_of_all(self._sharding, moved, ranked.k, placed[axis], others)
        return largest(moved, ranked.k)

    def row_shards(self, node: BaseNode, array: Any) -> int:
        """Return over how many devices the rows of a value are sharded, if sums over them may stay apart; else 1."""
        return 1 if self._sums is None else self._sums.row_shards(node, array)

    def apart(self, node: BaseNode, array: Any, terms: Any) -> PartialSum:
        """Return a sum over the rows of a value, given a term for each of `row_shards` along the first axis."""
        assert self._sums is not None
        return self._sums.apart(node, array, terms)

    def outputs(self, outputs: Sequence[BaseNode], known: Mapping[BaseNode, Any]) -> list[Any]:
        """Return the values of nodes, given values of some leaves; the others hold theirs."""
        return self.run(Schedule(outputs), known)

    def run(self, schedule: Schedule, known: Mapping[BaseNode, Any]) -> list[Any]:
        """Return the values of a schedule's outputs, given values of leaves."""
        values = self.compute(schedule, known, self.plan(schedule, known))
        return [dense(values[schedule.position[output]]) for output in schedule.outputs]

    def plan(self, schedule: Schedule, known: Container[BaseNode] = ()) -> list[int | Repeat]:
        """Return the order in which nodes are computed, with runs of equal layers."""
        return find_repeats(schedule, known, self._repeats, self._kind)

    def _kind(self, node: BaseNode) -> Hashable:
        """Return what tells nodes apart that layers do not share code for: lookups in tables are not stacked."""
        own = self._tables is not None and self._tables.is_lookup(node)
        return node if own else node in self._wide

    def compute(
        self,
        schedule: Schedule,
        known: Mapping[BaseNode, Any],
        plan: Sequence[int | Repeat],
        stacks: Sequence[tuple[Sequence[BaseNode], Any]] = (),
    ) -> Values:
        """Return the values of all nodes. `stacks`: parameters of equal layers, given as one array."""
        values = Values(len(schedule.nodes))
        for leaves, array in stacks:
            values.unstack([schedule.position[leaf] for leaf in leaves], array)
        for position, node in enumerate(schedule.nodes):
            if node in known:
                values[position] = known[node]
            elif node.is_leaf and position not in values:
                values[position] = self.leaf(node)
        for item in plan:
            if isinstance(item, Repeat):
                compute_repeat(item, schedule, values, self._in_loop)
            else:
                operands = [values[parent] for parent in schedule.parent_positions[item]]
                values[item] = self.value(schedule.nodes[item], operands)
        return values

    def leaf(self, leaf: BaseNode) -> Any:
        """Return the data that a leaf holds, as a constant of the traced function."""
        array = bound_array(leaf)
        return words(int(array)) if isinstance(leaf, Counter) else self.xp.asarray(narrowed(leaf, array))

    def value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node from those of its parents."""
        with jax.named_scope(self._names[node]) if node in self._names else nullcontext():
            return self._placed_value(node, operands)

    def _placed_value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node on the devices that its axes are sharded over, or as a partial sum."""
        if self._report is not None:
            self._report(node, operands, self.sizes)
        shape = resolve(node.dims, self.sizes)
        if self._tables is not None and self._tables.is_lookup(node):
            rows = self._tables.lookup(node, operands, self.dtype(node))
            return rows if self._place is None else self._place(node, rows)
        if self._sums is not None:
            partial = self._sums.of(node, operands, shape, lambda own: self._whole_value(node, own, shape))
            if partial is not None:
                return partial
        value = self._whole_value(node, operands, shape)
        return value if self._place is None or isinstance(value, Unjoined | PartialSum) else self._place(node, value)

    def _whole_value(self, node: BaseNode, operands: list[Any], shape: tuple[int, ...]) -> Any:
        """Return the value of a node, neither placed nor as a partial sum."""
        form = JAX.of(node)
        if not (form.takes_rows or node.takes_rows):
            operands = [dense(operand) for operand in operands]
        if self._narrow is not None:
            operands = self._in_precision(node, form, operands)
        if node.formula and type(form) is JaxForm:
            value = self.xp.broadcast_to(formula_value(self.xp, node, operands), shape)
        else:
            try:
                value = form.lower(node, operands, shape, self)
            except Exception as error:
                value = self._untraced(node, operands, shape, error)
            evaluated = type(form).lower is JaxForm.lower
            # The integers of a form may be pairs of words.
            if (evaluated or node.dtype.kind == "f") and _shape_of(value, shape) != shape:
                check_shape(node, value, shape, "evaluate" if evaluated else f"lower of {type(form).__name__}")
        if self._narrow is not None and getattr(value, "dtype", None) != self.dtype(node) and node.dtype.kind == "f":
            value = value.astype(self.dtype(node))
        return value

    def _untraced(self, node: BaseNode, operands: list[Any], shape: tuple[int, ...], error: Exception) -> Any:
        """Return the value of a node whose form JAX cannot trace, by its kernel or a call of its `evaluate`.

        Raise the error if it has neither.
        """
        if not untraceable(node, error):
            raise error
        with suppress(NotCompiled):
            return value_by_kernel(node, operands, shape)
        if not evaluated_in_numpy(node) or not self.calls_numpy:
            raise refusal(node, error) from error
        return call_evaluate(node, operands, shape, self.sizes, error)

    def _in_loop(self, node: BaseNode, operands: list[Any], attributes: Attributes) -> Any:
        """Return the value of a node in a loop over layers, with its traced attributes."""
        inside = copy(self)
        inside._attributes = attributes
        return inside.value(node, operands)

    def _in_precision(self, node: BaseNode, form: JaxForm, operands: list[Any]) -> list[Any]:
        """Return float operands in the dtype that an op is computed in."""
        # Elementwise ops of inputs compute in float32: bfloat16 loses the difference to a large target.
        of_data = any(isinstance(parent, Input) for parent in node.parents)
        narrow = form.narrow if form.narrow is not None else node.formula != "" and not of_data
        # So do losses, biases, and sums of gradients.
        if node.dtype.kind == "f" and not form.sums_products:
            narrow = narrow and len(node.dims) >= 2 and (form.narrow is not None or node not in self._wide)
        return [
            operand.astype(self._narrow if narrow else parent.dtype)
            if parent.dtype.kind == "f" and (operand.dtype == self._narrow) != narrow
            else operand
            for parent, operand in zip(node.parents, operands, strict=True)
        ]


def dense(value: Any) -> Any:
    """Return a value as one array: row-sparse values dense, parts of a loop joined, partial sums added."""
    value = whole(value)
    if isinstance(value, Unjoined):
        return value.flat()
    if not isinstance(value, RowSparse):
        return value
    xp: Any = namespace()
    return xp.zeros(value.shape, dtype=value.dtype).at[value.rows].add(value.values)


def words(step: int) -> Any:
    """Return an integer as the two words of a random step."""
    return namespace().asarray(step_words(step))


def float64_node(nodes: Sequence[BaseNode]) -> BaseNode | None:
    """Return the first node that computes in float64, also inside of loops, or None.

    Constants that a lowering reads on the host do not count, such as the weights of random rows.
    """
    for node in nodes:
        reads = JAX.of(node).reads_constants
        if (node.dtype == np.float64 and not isinstance(node, Constant)) or (
            not reads and any(parent.dtype == np.float64 for parent in node.parents)
        ):
            return node
        steps = LOOPS.of(node).steps(node)
        if steps is not None:
            inside = float64_node([x for x in topological_order(steps.body.outputs) if not x.is_leaf])
            if inside is not None:
                return inside
    return None


def _shape_of(value: Any, of_pairs: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of a value: `of_pairs` for a pair of words, None for no value."""
    return None if value is None else getattr(value, "shape", of_pairs)


def names_of_nodes(nodes: Sequence[BaseNode]) -> dict[BaseNode, str]:
    """Return the names of computed nodes in XLA's code, traces and errors: `layers[0].hidden:matmul~n17`.

    The number is the position among `nodes`.
    """
    return {
        node: f"{scope_text(node.module_path)}{':' if node.module_path else ''}{node.op_name()}~n{position}"
        for position, node in enumerate(nodes)
        if not node.is_leaf
    }


def scope_text(text: str) -> str:
    """Return a text as a name, or a part of one, that XLA keeps."""
    return _UNSAFE.sub("_", text)
