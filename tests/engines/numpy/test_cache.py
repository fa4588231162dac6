"""What the reference engine recomputes and what it reuses, measured by an op that counts its evaluations."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import wyrm as wy
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Counted(wy.Unary):
    """The identity. It counts its evaluations as `mark`, and those of its gradient as `d` + `mark`."""

    __slots__ = ("mark",)
    mark: str
    counts: ClassVar[Counter[str]] = Counter()
    fuse: ClassVar[float] = np.inf

    def __init__(self, x: Any, mark: str) -> None:
        super().__init__(x, mark=mark)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        self.counts[self.mark] += 1
        if (operands[0] > self.fuse).any():
            raise OverflowError("fuse")
        return operands[0] * 1.0

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (Counted(gradient, f"d{self.mark}"),)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Counted.counts.clear()
    yield
    Counted.fuse = np.inf


def counts() -> dict[str, int]:
    """Return the counts since the last call and reset them."""
    found = dict(Counted.counts)
    Counted.counts.clear()
    return found


def parameter(*values: float) -> Any:
    return wy.Parameter(np.array(values))


def test_a_shared_subgraph_is_computed_once() -> None:
    h = Counted(parameter(1.0, 2.0), "h")
    loss = (h * h + h.sin()).sum() * Counted(h, "again").sum()
    loss.forward()
    assert counts() == {"h": 1, "again": 1}


def test_equal_nodes_are_computed_once() -> None:
    p = parameter(1.0, 2.0)
    (Counted(p * 2.0, "h") + Counted(p * 2.0, "h")).sum().forward()
    assert counts() == {"h": 1}


def test_nothing_is_computed_again_when_nothing_changed() -> None:
    p = parameter(1.0, 2.0)
    loss = Counted(p, "h").square().sum()
    for _ in range(3):
        assert loss.forward() == 5.0
    assert counts() == {"h": 1}
    for _ in range(3):
        loss.backward()
    assert counts() == {"dh": 1}
    assert p.gradient.tolist() == [6.0, 12.0]


def test_only_what_changed_is_computed_again() -> None:
    p, q = parameter(1.0), parameter(2.0)
    loss = (Counted(p, "p") * Counted(q, "q")).sum()
    loss.backward()
    assert counts() == {"p": 1, "q": 1, "dp": 1, "dq": 1}
    p.set([3.0])
    assert loss.forward() == 6.0
    assert counts() == {"p": 1}
    loss.backward()
    assert counts() == {"dq": 1}  # the gradient with respect to p is q, which did not change
    q.set([5.0])
    loss.backward()
    assert counts() == {"q": 1, "dp": 1}
    assert p.gradient.tolist() == [2.0 + 2.0 + 5.0] and q.gradient.tolist() == [1.0 + 3.0 + 3.0]


def test_backward_visits_each_node_once() -> None:
    p = parameter(0.5)
    h: Any = Counted(p, "h")
    for _ in range(20):
        h = h + h * 0.1
    h.sum().backward()
    assert counts() == {"h": 1, "dh": 1}


def test_forward_of_an_inner_node_then_the_loss_then_backward() -> None:
    p, q = parameter(1.0), parameter(2.0)
    y: Any = Counted(p, "y")
    loss: Any = (Counted(y * q, "loss")).sum()
    y.forward()
    loss.forward()
    loss.backward()
    assert counts() == {"y": 1, "loss": 1, "dloss": 1, "dy": 1}
    p.set([4.0])
    assert (y.forward(), loss.forward()) == (4.0, 8.0)
    assert counts() == {"y": 1, "loss": 1}
    q.set([3.0])
    loss.backward()
    assert counts() == {"loss": 1, "dy": 1}  # the gradient with respect to the sum does not depend on q
    assert y.forward() == 4.0 and loss.forward() == 12.0
    p.set([5.0])
    assert (loss.forward(), y.forward()) == (15.0, 5.0)


def test_a_new_graph_reuses_the_values_of_shared_nodes() -> None:
    h = Counted(parameter(1.0, 2.0), "h")
    first = h.sum()
    first.forward()
    for _ in range(3):
        (h * 2.0).sum().forward()
    wy.run([h.sin(), h.cos()])
    assert counts() == {"h": 1}


def test_several_losses_that_share_parameters_and_nodes() -> None:
    p, q = parameter(1.0, 2.0), parameter(3.0, 4.0)
    h = Counted(p * q, "h")
    losses = [h.sum(), (h * h).sum(), (h.sin() * p).sum()]
    for values in ([1.0, 2.0], [0.5, -1.0], [0.5, -1.0], [2.0, 2.0]):
        p.set(values)
        for loss in losses:
            assert loss.forward() == pytest.approx(float(wy.run([loss * 1.0])[0].item()))
        for loss in losses:
            p.clear_gradient()
            loss.backward()
            np.testing.assert_allclose(p.gradient, wy.grad(loss, p).forward())
            assert p.value.tolist() == values
    assert counts()["h"] == 4  # once for each p.set


def test_deleting_one_output_leaves_others_right() -> None:
    p = parameter(1.0)
    h = Counted(p, "h")
    first, second = (h * 2.0).sum(), (h * 3.0).sum()
    first.forward()
    second.forward()
    del first
    for value in (2.0, 3.0):
        p.set([value])
        assert second.forward() == 3.0 * value and h.value == value
        third = (h * 5.0).sum()
        third.backward()
        assert third.forward() == 5.0 * value
    assert counts()["h"] == 3


def test_a_graph_is_freed_as_soon_as_nobody_uses_it() -> None:
    p = parameter(1.0, 2.0)
    gc.disable()
    try:
        loss = (p * 2.0).tanh().sum()
        inner = weakref.ref(loss.parents[0])
        loss.forward()
        loss.backward()
        del loss
        assert inner() is None
    finally:
        gc.enable()


def test_a_run_that_fails_leaves_values_gradients_and_the_next_run_right() -> None:
    p, q = parameter(1.0), parameter(5.0)
    product = p * q
    loss = (Counted(product, "h") + product * 2.0).sum()
    other = (product * 3.0).sum()
    loss.backward()
    other.forward()
    Counted.fuse = 10.0
    p.set([100.0])
    for failing in (loss.forward, loss.backward, loss.forward):
        with pytest.raises(OverflowError) as error:
            failing()
        assert any(note.startswith("counted(mark='h'): failed with OverflowError") for note in error.value.__notes__)
    assert p.gradient == 15.0
    assert other.forward() == 1500.0
    p.set([2.0])
    assert (loss.forward(), other.forward()) == (30.0, 30.0)
    loss.zero_gradient()
    loss.backward()
    assert (p.gradient, q.gradient) == (15.0, 6.0)


def test_a_run_that_fails_at_first_can_be_repeated() -> None:
    p = parameter(100.0)
    loss = Counted(p, "h").sum()
    Counted.fuse = 10.0
    with pytest.raises(OverflowError):
        loss.backward()
    p.set([1.0])
    loss.backward()
    assert p.gradient == 1.0


def test_values_of_inner_nodes_are_those_of_the_last_run() -> None:
    p = parameter(1.0, 2.0, 3.0, 4.0)
    h = p * 2.0
    flat = h.reshape(2, 2).T.reshape(4)  # this reshape copies
    first, second = (flat * 1.0).sum(), (flat.square()).sum()
    first.forward()
    second.forward()
    for values in ([5.0, 6.0, 7.0, 8.0], [1.0, 0.0, 1.0, 0.0]):
        p.set(values)
        first.forward()
        expected = 2.0 * np.array(values)
        assert h.value.tolist() == expected.tolist()
        assert flat.value.tolist() == expected.reshape(2, 2).T.ravel().tolist()
        assert first.value == expected.sum()


def test_the_value_of_an_output_inside_another_graph() -> None:
    p = parameter(1.0)
    y = Counted(p, "y") + 1.0
    loss = (y * y).sum()
    loss.forward()
    assert y.forward() == 2.0
    p.set([2.0])
    loss.forward()
    assert y.value == 3.0 and y.forward() == 3.0
    assert counts() == {"y": 2}


def test_a_value_that_was_read_does_not_change() -> None:
    p = parameter(1.0)
    y = p * 2.0
    before = y.forward()
    p.set([5.0])
    y.forward()
    assert before == 2.0


def test_run_takes_leaves_and_the_same_node_twice() -> None:
    p = parameter(2.0)
    y = Counted(p, "y")
    assert [value.tolist() for value in wy.run([y, p, y, y * 2.0])] == [[2.0], [2.0], [2.0], [4.0]]
    assert wy.run([]) == []
    assert counts() == {"y": 1}


def test_random_nodes_are_resampled_and_the_rest_is_reused() -> None:
    p = wy.Parameter(np.ones(64))
    h = Counted(p, "h")
    loss = (h.dropout(0.5) * 1.0).sum()
    values = {float(loss.forward()) for _ in range(5)}
    assert len(values) > 1 and counts() == {"h": 1}


def test_check_grads_through_a_counted_op() -> None:
    check_grads((Counted(parameter(0.3, 0.4), "h") * 2.0).tanh())
