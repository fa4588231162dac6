"""Every op that indexes reports an index out of range, wherever it stands, before anything changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange

SIZE = 5
BAD = [-1, SIZE, 10**9]
BEYOND = [-SIZE - 1, *BAD[1:]]
KNOWN = np.arange(SIZE + 1), np.arange(SIZE)  # user i knows row i
TOLD = r"but .* takes (0|-5) to 4"
RANDOM = np.random.default_rng(0)


class Nodes(wy.Dim): ...


Op = Callable[[Any, Any], Any]
# Ops with three indices into an axis of SIZE elements of a (SIZE, SIZE) matrix.
OPS: dict[str, Op] = {
    "take": lambda u, r: u.take(r, axis=0),
    "take along axis 1": lambda u, r: u.take(r, axis=1),
    "take_along_axis": lambda u, r: u[:3].take_along_axis(r.reshape((3, 1)), axis=1),
    "scatter_add": lambda u, r: u.scatter_add(r, np.ones((3, SIZE))),
    "cross_entropy": lambda u, r: u[:3].cross_entropy(r),
    "linear_cross_entropy": lambda u, r: wy.linear_cross_entropy(u[:3], u, r),
    "ignored labels": lambda u, r: wy.linear_cross_entropy(u[:3], u, r, ignore_index=-100),
    "embed": lambda u, r: u.embed(r, np.ones((3, SIZE))),
    "known rows": lambda u, r: u.take(wy.random.index(SIZE, (3,), exclude=KNOWN, rows=r), axis=0),
}
# The same for the first axis of (SIZE, 3), or the last of (3, SIZE), whose size comes from the data.
FIRST: dict[str, Op] = {
    "take": lambda u, r: u.take(r, axis=0),
    "scatter_add": lambda u, r: u.scatter_add(r, np.ones((3, 3))),
    "embed": lambda u, r: u.embed(r, np.ones((3, 3))),
}
LAST: dict[str, Op] = {
    "take along axis 1": lambda u, r: u.take(r, axis=1),
    "take_along_axis": lambda u, r: u.take_along_axis(r.reshape((3, 1)), axis=1),
    "cross_entropy": lambda u, r: u.cross_entropy(r),
}
# Ops with one index, in a step of a loop.
IN_LOOPS: dict[str, Op] = {
    "take": lambda u, i: u.take(i, axis=0).sum(),
    "take_along_axis": lambda u, i: u[0].take_along_axis(i.reshape((1,)), axis=0).sum(),
    "scatter_add": lambda u, i: u.scatter_add(i, np.ones(SIZE)).sum(),
    "cross_entropy": lambda u, i: u[0].cross_entropy(i),
    "embed": lambda u, i: u.embed(i.reshape((1,)), np.ones((1, SIZE))).sum(),
}


def table() -> Any:
    return wy.Parameter(RANDOM.standard_normal((SIZE, SIZE)), name="u")


def indices() -> Any:
    return wy.IndexInput(dims=(3,), name="rows")


def bad_for(name: str) -> list[int]:
    """Return integers that an op refuses; `take` counts negative ones from the end of the axis."""
    return BEYOND if name in ("take", "take along axis 1") else BAD


def forms(node: Any, u: Any) -> list[Any]:
    """Return a node, and a gradient through it."""
    return [node, wy.grad((node * node).sum(), u)]


def refused(node: Any, feed: dict[Any, Any]) -> None:
    """Check that both engines reject the data."""
    program = wy.compile(node)
    with pytest.raises(IndexOutOfRange, match=TOLD):
        program(feed)
    with pytest.raises(IndexOutOfRange, match=TOLD):
        for leaf, data in feed.items():
            leaf.set(data)
        node.forward()


@pytest.mark.parametrize("name", OPS)
def test_data_that_an_op_chooses_by(name: str) -> None:
    for bad in bad_for(name):
        u, rows = table(), indices()
        for node in forms(OPS[name](u, rows), u)[: 1 if name == "known rows" else 2]:
            refused(node, {rows: [0, bad, 2]})


@pytest.mark.parametrize("name", [*(f"first {name}" for name in FIRST), *(f"last {name}" for name in LAST)])
def test_an_axis_that_has_its_size_from_the_data(name: str) -> None:
    axis, name = name.split(" ", 1)
    for bad in bad_for(name):
        dims: Any = (Nodes(), 3) if axis == "first" else (3, Nodes())
        u, rows = wy.Input(dims=dims, name="u", dtype=np.float64), indices()
        data = RANDOM.standard_normal((SIZE, 3) if axis == "first" else (3, SIZE))
        for node in forms((FIRST if axis == "first" else LAST)[name](u, rows), u):
            refused(node, {u: data, rows: [0, bad, 2]})


@pytest.mark.parametrize("name", IN_LOOPS)
def test_data_that_a_step_of_a_loop_chooses_by(name: str) -> None:
    for bad in bad_for(name):
        u, rows = table(), indices()

        def step(state: Any, row: Any, u: Any = u) -> Any:
            return state + IN_LOOPS[name](u, row), None

        total = wy.scan(step, wy.Constant(np.zeros(())), rows)[0]
        for node in forms(total, u):
            refused(node, {rows: [0, bad, 2]})


@pytest.mark.parametrize("name", OPS)
def test_integers_that_are_computed(name: str) -> None:
    """Selected indices must be in range; the other data beside them may be anything."""
    u, pairs = table(), wy.IndexInput(dims=(2, 3), name="pairs")
    node = OPS[name](u, pairs[0])
    if name != "known rows":
        node = wy.grad((node * node).sum(), u)
    program, fine = wy.compile(node), np.array([[0, 1, 4], [0, 10**9, -1]])
    for bad in (None, *bad_for(name), None):
        data = fine if bad is None else np.array([[0, bad, 2], [0, 0, 0]])
        if bad is None:
            pairs.set(data)
            found, expected = program({pairs: data}), node.forward()
            assert found.shape == expected.shape
            if name != "known rows":  # these are drawn again in every step
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            continue
        with pytest.raises(IndexOutOfRange, match=TOLD):
            program({pairs: data})
        with pytest.raises(IndexOutOfRange, match=TOLD):
            pairs.set(data)


@pytest.mark.parametrize(("name", "loop"), [("take", "compiled"), ("cross_entropy", "python")])
def test_integers_that_only_a_branch_chooses_by(name: str, loop: Any) -> None:
    u, row, taken = table(), wy.IndexInput(name="row"), wy.Input(name="taken", dtype=np.float64)
    value = wy.cond(taken > 0.0, lambda: IN_LOOPS[name](u, row), lambda: u.sum())
    outputs = [value, wy.grad(value, u)]
    program = wy.compile(outputs, loop=loop)
    feeds: list[dict[Any, Any]] = [{row: 3, taken: 1.0}, {row: 10**9, taken: -1.0}]
    for fine in feeds:
        for leaf, data in fine.items():
            leaf.set(data)
        for found, node in zip(program(fine), outputs, strict=True):
            np.testing.assert_allclose(found, node.forward(), rtol=1e-12)
    for bad in bad_for(name):
        with pytest.raises(IndexOutOfRange, match=TOLD):
            program({row: bad, taken: 1.0})


def test_a_position_beyond_an_axis_that_the_data_sizes() -> None:
    u: Any = wy.Input(dims=(Nodes(), 2), name="u", dtype=np.float64)
    outputs = [u[5] * 2.0, u.T[:, -6].exp(), wy.grad((u[5] * u[-6]).sum(), u)]
    data = RANDOM.standard_normal((7, 2))
    u.set(data)
    program = wy.compile(outputs)
    for found, node in zip(program({u: data}), outputs, strict=True):
        np.testing.assert_allclose(found, node.forward(), rtol=1e-12)
    for node in outputs:
        with pytest.raises(IndexOutOfRange, match="on an axis that has 5 elements in this run"):
            wy.compile(node)({u: data[:5]})
        with pytest.raises(IndexOutOfRange, match="on an axis that has 5 elements in this run"):
            u.set(data[:5])
            node.forward()


def test_training_refuses_before_a_parameter_moves() -> None:
    class Batch(wy.Dim): ...

    u, nodes = table(), wy.Input(dims=(Batch(), SIZE), name="nodes", dtype=np.float64)
    other = wy.IndexInput(dims=(Batch(),), name="other")
    loss = (nodes.take(other, axis=0) @ u).square().mean()  # each row indexes another row of its batch
    train = wy.compile(loss, wy.optim.SGD([u], 0.1))
    before, data = u.value, RANDOM.standard_normal((10, SIZE))
    columns = {nodes: data, other: np.arange(10) % 4}
    for bad in (-6, 5):
        wrong = columns | {other: np.where(np.arange(10) == 8, bad, np.arange(10) % 4)}
        with pytest.raises(IndexOutOfRange, match=f"column other holds {bad} in row 8, .*takes -5 to 4; no parameter"):
            train.epoch(wrong, batch_size=5)
    assert (u.value == before).all()
    assert np.isfinite(train.epoch(columns, batch_size=5))


def test_a_function_refuses_what_its_derivative_chooses_by() -> None:
    @wy.function(engine="native")
    def loss(matrix: Any, rows: Any) -> Any:
        return wy.scan(lambda s, i: (s + matrix.take(i, axis=0).sum(), None), wy.Constant(np.zeros(())), rows)[0]

    for bad in BEYOND:
        with pytest.raises(IndexOutOfRange, match=TOLD):
            loss.grad()(np.ones((SIZE, 2)), np.array([0, bad, 2]))


def test_a_leaf_refuses_only_for_graphs_that_live() -> None:
    rows = wy.IndexInput(dims=(1,), name="rows")
    small = wy.Parameter(np.ones((2, 1))).index(rows)
    with pytest.raises(IndexOutOfRange):
        rows.set([2])
    del small
    rows.set([2])
    assert rows.value.tolist() == [2]


def test_remainders_and_indices_of_indices_need_no_check() -> None:
    batch = Nodes()
    parts, places = wy.IndexInput(dims=(batch, 3), name="parts"), wy.IndexInput(dims=(batch,), name="places")
    u = table()
    hashed = parts % SIZE
    rows = hashed.take_along_axis((places % 3).expand_dims(1), axis=1).squeeze(1)
    program = wy.compile(u.index(rows).sum(-1))
    assert "checked(" not in program.source
    data = {parts: RANDOM.integers(-50, 50, (20, 3)), places: RANDOM.integers(-9, 9, 20)}
    wanted = (data[parts] % SIZE)[np.arange(20), data[places] % 3]
    np.testing.assert_allclose(program(data), u.value[wanted].sum(-1))
    features = wy.IndexConstant([[0, 4], [1, 3], [2, 2]])
    listed = wy.compile(u.index(features[places % 3]).sum((-2, -1)))
    assert "checked(" not in listed.source
    np.testing.assert_allclose(listed({places: data[places]}), u.value[features.value[data[places] % 3]].sum((1, 2)))
    for row in ([2, SIZE], [2, -1]):
        program = wy.compile(u.index(wy.IndexConstant([[0, 4], [1, 3], row])[places % 3]).sum((-2, -1)))
        assert "checked(" in program.source
        assert program({places: np.array([0, 1])}).shape == (2,)
        with pytest.raises(IndexOutOfRange):
            program({places: np.arange(3)})
    assert "checked(" in wy.compile(u.index(parts[:, 0] % (SIZE + 1)).sum(-1)).source
    assert "checked(" in wy.compile(u.index(parts[:, 0] % places).sum(-1)).source
