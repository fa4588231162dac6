"""Weak float types: what is weak, what it becomes beside chosen types, and that it is rebuilt once and exactly."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, NotDifferentiable
from wyrm.graph import weak_types
from wyrm.graph.weak_types import is_weak

NUMBERS = np.array([-1.3, 2.1, 0.4])


def wide(name: str = "x") -> wy.Input[Any]:
    return wy.Input(NUMBERS, name=name)


def test_numbers_are_weak_and_what_chooses_a_type_is_not() -> None:
    x = wide()
    for node in (
        wy.Constant(0.1),
        wy.Constant([0.1]),
        wy.ones(3),
        (x > 0).mean(),
        wy.random.normal((3,)),
        wy.ones(3) * 2.0,
    ):
        assert is_weak(node.dtype)
    strong: list[wy.Node] = [
        x, wy.Parameter(0.1), wy.Constant(NUMBERS), wy.Constant(0.1, dtype=np.float32), wy.ones(3, np.float32),
        (x > 0).astype(np.float32), wy.ones(3).astype(np.float32), wy.ones(3).astype(wy.ones(3).dtype), x * 2.0,
        wy.ones(3) * x, wy.random.normal((3,), dtype=np.float32), wy.Input(dtype=wy.ones(3).dtype),
    ]  # fmt: skip
    assert not any(is_weak(node.dtype) for node in strong)


def test_the_default_type_is_that_of_the_floats_behind_masks_and_integers() -> None:
    x = wide()
    narrow = wy.Input(NUMBERS.astype(np.float32))
    assert wy.where(x > 0, 0.1, 0.2).forward().tolist() == [0.2, 0.1, 0.1]
    assert wy.where(~((x > 0) & (narrow < 9)), 0.1, 0.2).dtype in (np.float32, np.float64)
    assert (x.argmax() / 3).dtype == (x > 0).mean().dtype == np.float64
    assert wy.where(narrow > 0, 0.1, 0.2).dtype == wy.ones(3).dtype == np.float32
    assert wy.one_hot([1], 3).dtype == np.float32


@pytest.mark.parametrize("turned", [False, True])
def test_a_weak_node_is_exact_in_the_type_that_it_meets(turned: bool) -> None:
    x, weak = wide(), wy.Constant([0.1, 0.2, 0.3]) * 0.7 + wy.linspace(0.0, 1.0, 3) / 3
    result = weak * x if turned else x * weak
    assert result.dtype == np.float64 and weak.dtype == np.float32
    expected = (np.array([0.1, 0.2, 0.3]) * 0.7 + np.linspace(0.0, 1.0, 3) / 3) * NUMBERS
    assert result.forward().tolist() == expected.tolist()


def test_beside_float32_the_default_stays() -> None:
    x, weak = wy.Input(NUMBERS.astype(np.float32)), wy.Constant(0.1) * 3.0
    result = x + weak
    assert result.parents[1] is weak and result.dtype == np.float32 and not is_weak(result.dtype)
    of_wide = wy.where(wide() > 0, 0.1, 0.2)  # its default is float64
    assert (x + of_wide).dtype == np.float32


def test_a_node_is_rebuilt_once_and_what_is_shared_stays_shared() -> None:
    x, shared = wide(), wy.ones(3) * 0.1
    first, second = x * shared.exp(), x + shared.sin()
    assert (
        (x * shared).parents[1]
        is (x - shared).parents[1]
        is first.parents[1].parents[0]
        is second.parents[1].parents[0]
    )
    noise = wy.random.normal((3,))
    assert (x + noise).parents[1] is (noise * x).parents[0]


def test_a_long_chain_is_rebuilt_without_recursion() -> None:
    weak: wy.Node = wy.Constant(0.0)
    for _ in range(20_000):
        weak = weak + 0.1
    assert (wy.Input(0.0, dtype=np.float64) + weak).dtype == np.float64


def test_what_was_rebuilt_is_forgotten_with_the_weak_node() -> None:
    gc.collect()
    before = len(weak_types._rebuilt)
    weak = wy.ones(3) * 0.1
    result = wide() * weak
    assert len(weak_types._rebuilt) > before
    del weak
    gc.collect()
    assert len(weak_types._rebuilt) == before and result.dtype == np.float64


def test_two_chosen_types_do_not_mix() -> None:
    x, narrow = wide(), wy.Input(NUMBERS.astype(np.float32), name="narrow")
    with pytest.raises(DTypeError, match="float64 and float32 do not mix; convert one"):
        x + narrow
    with pytest.raises(DTypeError, match="do not mix"):
        wy.stack([x, wy.ones(3), narrow])
    with pytest.raises(DTypeError, match="do not mix"):
        x + wy.ones(3).astype(np.float32)
    assert wy.stack([wy.ones(3), x, wy.where(narrow > 0, 0.1, 0.2)]).dtype == np.float64


def test_numbers_and_arrays_beside_a_weak_node() -> None:
    x, weak = wide(), wy.ones(3)
    assert (weak * NUMBERS).forward().tolist() == NUMBERS.tolist()
    operands: list[Any] = [0.1, np.float64(0.1), NUMBERS, [0.1, 0.2, 0.3]]
    for operand in operands:
        each = weak - operand
        assert is_weak(each.dtype)
        assert (wy.Input(NUMBERS.astype(np.float32)) + each).dtype == np.float32
        assert (x * each).forward().tolist() == (NUMBERS * (1.0 - np.asarray(operand))).tolist()
    given = NUMBERS.copy()
    product = weak * given
    given[:] = 0.0
    assert (product * x).forward().tolist() == (NUMBERS * NUMBERS).tolist()


def test_the_array_of_a_weak_result_chooses_its_type() -> None:
    found = wy.compile(wy.ones(3) * 2.0)()
    for leaf in (wy.Constant(found), wy.Parameter(found), wy.Input(found), wy.Buffer(found)):
        assert leaf.dtype == np.float32 and not is_weak(leaf.dtype)
    assert not is_weak(wy.where(wide() > 0, found, 0.1).dtype)
    assert wy.function(lambda x: x * 2.0)(found).dtype == np.float32


def test_the_gradient_of_a_weak_node_is_in_the_type_of_its_use() -> None:
    x, weak = wide(), wy.Constant([0.1, 0.2, 0.3])
    noise = wy.random.normal((3,))
    loss = (x * (weak * 2.0) + noise * x).sum()
    by_weak, by_noise, by_x = wy.grad(loss, (weak, noise, x))
    assert by_weak.dtype == by_noise.dtype == by_x.dtype == np.float64
    assert by_weak.forward().tolist() == (2.0 * NUMBERS).tolist()
    assert wy.jvp(loss, weak, np.array([0.1, 0.0, 0.0])).forward().item() == 0.1 * 2.0 * -1.3
    twice = loss + (wy.Parameter(1.0) * weak).sum().astype(np.float64)
    with pytest.raises(NotDifferentiable, match="used as float32 and float64"):
        wy.grad(twice, weak)


def test_random_draws_have_the_number_of_their_stream_in_either_type() -> None:
    weak = wy.random.uniform((1000,), stream=5)
    chosen = wy.random.uniform((1000,), stream=5, dtype=np.float64)
    narrow, met, direct = wy.run([weak, weak + wy.Constant(np.zeros(1000)), chosen])
    assert np.array_equal(met, direct)
    difference = direct - narrow  # the number in float32 has the first 24 bits
    assert ((difference >= 0.0) & (difference < 2.0**-24)).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda node: pickle.loads(pickle.dumps(node))])
def test_copies_and_pickles_stay_weak(copied: Any) -> None:
    x = wide()
    mask = wy.one_hot([1], 3)[0] + (x > 0).mean()
    weak = wy.Constant([0.1, 0.2, 0.3]) * mask + wy.full((3,), 0.1) + wy.random.normal((3,), stream=1)
    other = copied(weak)
    assert is_weak(other.dtype)
    have, want = wy.run([other * x, weak * x])
    assert have.dtype == np.float64 and have.tolist() == want.tolist()
    constant = copied(wy.Constant([0.1, 0.2], name="numbers", dims=(2,)))
    assert constant.name == "numbers" and (constant + np.zeros(2)).forward().tolist() == [0.1, 0.2]


def test_an_op_of_a_user_is_rebuilt_too() -> None:
    class Tripled(wy.Unary):
        formula = "x * 3.0"

        def vjp(self, gradient: wy.Node) -> tuple[wy.Node]:
            return (gradient * 3.0,)

    x = wide()
    assert (x + Tripled(wy.Constant(0.1))).forward().tolist() == (NUMBERS + 0.1 * 3.0).tolist()


def test_buffers_take_weak_updates_and_large_constants_keep_one_number() -> None:
    x, buffer = wy.Parameter(NUMBERS), wy.Buffer(np.zeros(()))
    wy.updating((x * x).sum(), {buffer: wy.Constant(0.1) * 1.0}).backward()
    assert float(buffer.value) == 0.1
    storage: Any = wy.full((100, 100), 0.1)._storage
    assert storage.exact == 0.1
