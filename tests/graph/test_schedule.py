"""Schedules of outputs: order, merged operations, nothing unneeded, and lifetimes of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.graph import BaseNode
from wyrm.graph.schedule import Schedule
from wyrm.graph.traversal import topological_order


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


def parameter(*values: float, name: str | None = None) -> Any:
    return wy.Parameter(np.array(values), name=name)


def names(schedule: Schedule) -> list[str]:
    return [node.op_name() for node in schedule.nodes]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=30), st.integers(0, 99))
def test_parents_come_before_children_and_each_node_once(edges: list[tuple[int, int]], last: int) -> None:
    nodes: list[Any] = [parameter(1.0), parameter(2.0)]
    for i, j in edges:
        nodes.append(nodes[i % len(nodes)] + nodes[j % len(nodes)])
    outputs = [nodes[-1], nodes[last % len(nodes)]]
    order = topological_order(outputs)
    position = {node: i for i, node in enumerate(order)}
    assert len(position) == len(order) and set(outputs) <= set(order)
    assert all(position[parent] < position[node] for node in order for parent in node.parents)
    reached: set[BaseNode[Any, Any]] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node not in reached:
            reached.add(node)
            stack += node.parents
    assert reached == set(order)

    schedule = Schedule(outputs)
    place = {node: i for i, node in enumerate(schedule.nodes)}
    assert set(schedule.representative) == set(order)
    for i, node in enumerate(schedule.nodes):
        uses = [place[n] for n in schedule.nodes if node in set(schedule.parents(n))]
        assert all(place[parent] < i for parent in schedule.parents(node))
        assert schedule.last_use[i] == (len(schedule.nodes) if node in set(schedule.outputs) else max(uses))


def test_what_outputs_do_not_need_is_left_out() -> None:
    p = parameter(1.0)
    _unused = p.exp()
    assert names(Schedule([p.sin()])) == ["parameter", "sin"]


def test_equal_operations_are_merged_all_the_way_up() -> None:
    p = parameter(1.0, 2.0)
    first, second = ((p * 2.0).tanh() + p[0]).sum(), ((p * 2.0).tanh() + p[0]).sum()
    schedule = Schedule([first, second])
    assert all(output is first for output in schedule.outputs)
    assert names(schedule).count("tanh") == names(schedule).count("constant") == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda p: p * 2.0, lambda p: p * 3.0),
        (lambda p: p.sum(axis=0), lambda p: p.sum(axis=1)),
        (lambda p: p.sum(axis=0), lambda p: p.mean(axis=0)),
        (lambda p: p[0], lambda p: p[1]),
        (lambda p: p.reshape(4), lambda p: p.reshape(2, 2)),
        (lambda p: p.leaky_relu(0.1), lambda p: p.leaky_relu(0.2)),
        (lambda p: p.dropout(0.5), lambda p: p.dropout(0.5)),
        (lambda p: p @ p.T, lambda p: p.T @ p),
        (lambda p: p * np.full((2, 2), 2.0), lambda p: p * np.full((2, 2), 3.0)),
        (lambda p: p * np.zeros((5, 2, 2)), lambda p: p * np.zeros((5, 2, 2))),
    ],
)
def test_different_operations_are_not_merged(left: Any, right: Any) -> None:
    p = wy.Parameter(np.array([[1.0, 2.0], [3.0, 4.0]]))
    first, second = left(p), right(p)
    assert Schedule([first, second]).outputs[1] is second


def test_leaves_are_merged_by_identity_and_small_constants_by_content() -> None:
    p, q = parameter(1.0), parameter(1.0)
    assert len(Schedule([p + q]).leaves) == 2
    numbers = wy.Constant(2.0), wy.Constant(2.0), wy.Constant(np.float64(2.0)), wy.Constant([2.0]), wy.Constant(-0.0)
    assert len(Schedule([*numbers, wy.Constant(0.0)]).nodes) == 5


class Scaled(wy.Unary):
    __slots__ = ("by",)
    formula = "x * by"
    by: Any

    def __init__(self, x: Any, by: Any) -> None:
        super().__init__(x, by=by)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * self.by,)


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), (1.0, np.float32(1.0)), ((0.0, 1), (-0.0, 1)), (0, False)]
)
def test_attributes_are_the_same_where_their_types_and_bits_are(one: Any, other: Any) -> None:
    p = parameter(2.0)
    assert len(Schedule([Scaled(p, one), Scaled(p, other)]).nodes) == 3
    assert len(Schedule([Scaled(p, one), Scaled(p, one)]).nodes) == 2


def test_the_sign_of_a_zero_is_kept() -> None:
    p = parameter(2.0)
    signs = [1.0 / Scaled(p, zero) for zero in (0.0, -0.0)]
    for found in (wy.run(signs), wy.compile(signs)()):
        assert [value.item() for value in found] == [np.inf, -np.inf]


def test_any_nan_among_the_attributes_is_the_same() -> None:
    p = parameter(2.0)
    assert len(Schedule([Scaled(p, float("nan")), Scaled(p, -float("nan"))]).nodes) == 2


def test_an_attribute_that_cannot_be_compared_keeps_nodes_apart() -> None:
    class Table(wy.Unary):
        __slots__ = ("table",)
        table: Any

        def __init__(self, x: Any, table: Any) -> None:
            super().__init__(x, table=table)

        def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
            return operands[0] * self.table[0]

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (wy.ZERO,)

    p = parameter(1.0)
    for table in ([2.0], np.array([2.0]), {0: 2.0}):
        first, second = Table(p, table), Table(p, table)
        assert Schedule([first, second]).outputs[1] is second
        assert (first + second).forward() == 4.0


def test_sizes_come_from_the_graph_and_from_the_data() -> None:
    x: Any = wy.Input(dims=(Batch(), Hidden(3)), name="x")
    total = x.reshape(-1).sum()
    schedule = Schedule([total])
    assert schedule.sizes == {Hidden: 3}
    for size in (2, 5):
        x.set(np.ones((size, 3)))
        sizes = schedule.bind()
        assert sizes == {Hidden: 3, Batch: size}
        assert [schedule.shape(node, sizes) for node in schedule.nodes] == [(size, 3), (3 * size,), ()]


def test_a_node_with_one_name_at_two_sizes() -> None:
    square = wy.Parameter(np.ones((3, 4)), dims=(Hidden, Hidden), name="square")
    with pytest.raises(ShapeError, match=r"axis Hidden is bound twice .*: 3 by square .*, 4 by square"):
        Schedule([square])


def test_a_schedule_after_another_has_its_nodes_first_and_computes_nothing_twice() -> None:
    p, q = wy.Parameter([1.0, 2.0], name="p"), wy.Parameter([3.0, 4.0], name="q")
    first = Schedule([p.sin() * 2.0])
    second = Schedule([p.sin() * q, p.sin() * 2.0], after=first)
    assert second.nodes[: len(first.nodes)] == first.nodes and first.stops == (4,)
    assert names(second) == [*names(first), "parameter", "multiply"]
    assert second.stops == (4, 6) and second.stages == [(0, 4), (4, 6)]
    assert second.outputs[1] is first.outputs[0]
    assert [leaf.name for leaf in second.leaves] == ["p", None, "q"]
    for node, places in zip(second.nodes, second.parent_positions, strict=True):
        assert [second.nodes[place] for place in places] == second.parents(node)
    assert first.nodes == second.nodes[:4] and set(first.position) < set(second.position)


def test_a_schedule_after_another_minds_its_sizes() -> None:
    class Rows(wy.Dim): ...

    first = Schedule([wy.Parameter([1.0, 2.0], dims=(Rows,)).sin()])
    with pytest.raises(wy.WyrmError, match="bound twice"):
        Schedule([wy.Parameter([1.0], dims=(Rows,)).sin()], after=first)
    assert first.sizes == {Rows: 2}
