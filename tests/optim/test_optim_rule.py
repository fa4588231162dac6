"""A rule runs in place and in blocks, in any order of reads and writes; a rule that is not elementwise is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.numpy.calls import BLOCK
from wyrm.errors import RegistrationError
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored
from wyrm.optim import FTRL, SAGA, SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

MAKERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adagrad": lambda p: Adagrad(p, 0.1),
    "ftrl": lambda p: FTRL(p, 0.1, l1=0.1),
    "saga": lambda p: SAGA(p, 0.1, 3, l1=0.1),
    "rmsprop": lambda p: RMSprop(p, 0.1, momentum=0.5, centered=True),
    "adam": lambda p: Adam(p, 0.1, amsgrad=True),
    "adamw": lambda p: AdamW(p, 0.1),
}


class Custom(Optimizer):
    """An optimizer with any state and update."""

    def __init__(self, parameters: Any, state: Mapping[str, float], function: Callable[..., Any]) -> None:
        self._initial, self._function = state, function
        super().__init__(parameters, 0.5)

    def initial_state(self) -> Mapping[str, float]:
        return self._initial

    def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
        return self._function(parameter, gradient, state, hyperparameters["learning_rate"])


def stepped(state: Mapping[str, float], function: Callable[..., Any], steps: int = 1) -> dict[str, list[float]]:
    """Return the parameter [1, 2] and its state after steps with the gradient [10, 20]."""
    parameter = wy.Parameter(np.array([1.0, 2.0]))
    optimizer = Custom([parameter], state, function)
    for _ in range(steps):
        stored(parameter).gradient = np.array([10.0, 20.0])
        optimizer.step()
    arrays = optimizer.state_dict()
    return {"parameter": parameter.value.tolist()} | {name: arrays[f"0.{name}"].tolist() for name in state}


def test_a_new_state_may_be_the_old_parameter_or_the_gradient() -> None:
    found = stepped(
        {"before": 0.0, "gradient": 0.0}, lambda p, g, state, rate: (p - rate * g, {"before": p, "gradient": g})
    )
    assert found == {"parameter": [-4.0, -8.0], "before": [1.0, 2.0], "gradient": [10.0, 20.0]}


def test_two_states_may_be_exchanged() -> None:
    def update(p: Any, g: Any, state: Any, rate: Any) -> Any:
        return p + 0.0 * g, {"a": state["b"], "b": state["a"]}

    assert stepped({"a": 1.0, "b": 2.0}, update) == {"parameter": [1.0, 2.0], "a": [2.0, 2.0], "b": [1.0, 1.0]}


def test_an_old_state_may_be_read_after_its_new_value_is_made() -> None:
    def update(p: Any, g: Any, state: Any, rate: Any) -> Any:
        new = state["a"] + g
        return p - (new * 2.0 - state["a"]).square(), {"a": new, "b": new}

    assert stepped({"a": 1.0, "b": 0.0}, update) == {
        "parameter": [1.0 - 21.0**2, 2.0 - 41.0**2],
        "a": [11.0, 21.0],
        "b": [11.0, 21.0],
    }


def test_masks_and_numbers_make_values() -> None:
    def update(p: Any, g: Any, state: Any, rate: Any) -> Any:
        return wy.where((g > 15.0) & ~(p > 5.0), p + 1.0, p), {"a": rate * rate, "b": (rate > 0.0).astype(np.float64)}

    def without_cast(p: Any, g: Any, state: Any, rate: Any) -> Any:
        return wy.where((g > 15.0) & ~(p > 5.0), p + 1.0, p), {"a": rate * rate}

    assert stepped({"a": 1.0}, without_cast, 2) == {"parameter": [1.0, 4.0], "a": [0.25, 0.25]}
    with pytest.raises(RegistrationError, match=r"elementwise .* cast"):
        stepped({"a": 0.0, "b": 0.0}, update)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_rule_is_what_the_reference_engine_computes(seed: int) -> None:
    """Overwriting arrays that later calls read changes no result, in any order of calls."""
    start = {"parameter": [1.0, 2.0], "gradient": [10.0, 20.0], "a": [3.0, 3.0], "b": [-4.0, -4.0], "c": [0.5, 0.5]}

    def update(p: Any, g: Any, state: Any, rate: Any) -> Any:
        random = np.random.default_rng(seed)
        nodes = [p, g, *state.values(), rate]
        for _ in range(12):
            x, y = (nodes[i] for i in random.integers(0, len(nodes), 2))
            choices = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x.maximum(y) * 0.5, lambda x, y: x.tanh()]
            choices += [lambda x, y: wy.where(x > y, y, x), lambda x, y: x.gelu(), lambda x, y: x.clip(-2.0, 2.0)]
            nodes.append(choices[random.integers(len(choices))](x, y))
        value, *changed = (nodes[i] for i in random.integers(0, len(nodes), 4))
        return value, dict(zip(state, changed, strict=True))

    leaves = {name: wy.Input(np.array(values)) for name, values in start.items()}
    state = {name: leaves[name] for name in "abc"}
    value, changed = update(leaves["parameter"], leaves["gradient"], state, wy.Input(np.array(0.5)))
    expected = [np.broadcast_to(array, 2).tolist() for array in wy.run([value, *changed.values()])]
    found = stepped({name: start[name][0] for name in "abc"}, update)
    assert [found[name] for name in ("parameter", "a", "b", "c")] == expected


@pytest.mark.parametrize(
    ("state", "function", "message"),
    [
        ({}, lambda p, g, s, r: (p - g.sum(), {}), r"optimizer's rule must be elementwise .* sum"),
        ({}, lambda p, g, s, r: (p - wy.Input(name="stray", dtype=np.float64), {}), "stray"),
        ({}, lambda p, g, s, r: (p - np.ones(1), {}), "use only its arguments and constants"),
        ({"a": 0.0}, lambda p, g, s, r: (p, {}), "declares, a; it returned none"),
        ({}, lambda p, g, s, r: (p, {"b": p}), "declares, none; it returned b"),
        ({}, lambda p, g, s, r: (p > 0.0, {}), "must keep the dtype float64"),
        (
            {"mean": 0.0, "other": 0.0},
            lambda p, g, s, r: (p, {"mean": s["maen"]}),
            r"^Custom\.update \(.*test_optim_rule\.py:\d+\) reads the state 'maen'; there is mean, other; did you mean "
            "'mean'",
        ),
        ({}, lambda p, g, s, r: (p - s["mean"], {}), "reads the state 'mean'; there is none"),
    ],
)
def test_what_is_no_rule_is_refused_before_a_parameter_moves(state: Any, function: Any, message: str) -> None:
    parameter = wy.Parameter(np.ones(2))
    optimizer = Custom([parameter], state, function)
    stored(parameter).gradient = np.ones(2)
    with pytest.raises(RegistrationError, match=message):
        optimizer.step()
    assert (parameter.value.tolist(), optimizer.steps) == ([1.0, 1.0], 0)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_many_blocks_are_as_one(make: Callable[[Any], Optimizer]) -> None:
    size = 2 * BLOCK + 7
    values = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    whole = wy.Parameter(values)
    parts = [wy.Parameter(part) for part in np.array_split(values, 5)]
    optimizers = [make([whole]), make(parts)]
    for seed in range(3):
        gradient = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
        stored(whole).gradient = gradient
        for part, piece in zip(parts, np.array_split(gradient, 5), strict=True):
            stored(part).gradient = piece
        for optimizer in optimizers:
            optimizer.step()
    np.testing.assert_array_equal(whole.value, np.concatenate([part.value for part in parts]))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("shape", [(5, 3), (5,), (5, 2, 2), (3, BLOCK + 1), (5, 0)])
def test_all_rows_are_the_whole(make: Callable[[Any], Optimizer], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape)
    sparse, dense = wy.Parameter(values), wy.Parameter(values)
    optimizers = [make([sparse]), make([dense])]
    rows = np.random.default_rng(1).permutation(shape[0])
    for _ in range(3):
        gradient = values * 0.5 + 1.0
        stored(sparse).gradient = RowSparse(rows, gradient[rows], shape)
        stored(dense).gradient = gradient.T.copy().T  # Fortran order
        for optimizer in optimizers:
            optimizer.step()
    np.testing.assert_array_equal(sparse.value, dense.value)


def test_no_rows_move_nothing() -> None:
    table = wy.Parameter(np.ones((3, 2)))
    stored(table).gradient = RowSparse(np.zeros(0, np.int64), np.zeros((0, 2)), (3, 2))
    Adam([table]).step()
    np.testing.assert_array_equal(table.value, 1.0)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_values_change_in_place_and_are_seen_by_the_graph(make: Callable[[Any], Optimizer]) -> None:
    x = wy.Parameter(np.ones((4, 2)))
    memory = stored(x).array
    loss = x.square().sum()
    optimizer = make([x])
    first = loss.forward()
    loss.backward()
    optimizer.step()
    assert stored(x).array is memory
    assert loss.forward() < first


def test_float_types_mix_across_parameters() -> None:
    single, double = wy.Parameter(np.float32(1.0)), wy.Parameter(np.float64(1.0))
    optimizer = Adam([single, double], 0.1)
    stored(single).gradient, stored(double).gradient = np.array(2.0, np.float32), np.array(2.0)
    optimizer.step()
    assert [str(single.value.dtype), str(double.value.dtype)] == ["float32", "float64"]
    assert float(single) == pytest.approx(float(double), rel=1e-6)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_an_optimizer_is_copied_with_its_parameters(again: Callable[[Any], Any]) -> None:
    x = wy.Parameter(np.ones(3))
    loss, optimizer = x.square().sum(), Adam([x], 0.1)
    loss.backward()
    optimizer.step()
    other_loss, other = again((loss, optimizer))
    for one, mover in ((loss, optimizer), (other_loss, other)):
        one.zero_gradient()
        one.backward()
        mover.step()
    np.testing.assert_array_equal(other.parameters[0].value, x.value)
    assert other.parameters[0] is not x


def test_numbers_that_are_computed_ahead_follow_the_rate_and_the_counts() -> None:
    parameter = wy.Parameter(np.ones(3, np.float32))
    optimizer = wy.optim.AdamW([parameter], 0.1, weight_decay=0.5)
    optimizer.rule(parameter)

    def check(done: int, count: int) -> None:
        found = optimizer.numbers(count)
        for step in range(count):
            expected = optimizer.hyperparameters(done + 1 + step)
            assert {name: values[step] for name, values in found.items()} == pytest.approx(expected, rel=1e-14)
            assert all(len(values) == count for values in found.values())

    for done in (0, 7, 14):
        check(done, 7)
        optimizer.advance(7)
    optimizer.learning_rate = 0.2
    check(21, 7)
    check(21, 5000)
    state = optimizer.state_dict()
    optimizer.load_state_dict(state | {"steps": np.asarray(3), "counts": np.asarray([3])})
    check(3, 7)
    optimizer.load_step_counts([4990, 4990])
    check(4990, 40)
    optimizer.learning_rate = 0.1
    optimizer.load_step_counts([0, 0])
    check(0, 7)
    other = copy.deepcopy(optimizer)
    other.betas = (0.5, 0.6)
    assert other.numbers(1)["step_size"] == pytest.approx([0.1 / 0.5])
    groups = wy.optim.Adam([{"parameters": [parameter], "learning_rate_factor": 0.5}], 0.1)
    groups.rule(parameter)
    for rate in (0.1, 0.2, 0.1):
        groups.learning_rate = rate
        assert groups.numbers(3)["decay"].tolist() == [1.0] * 3
        assert groups.numbers(1)["step_size"] == pytest.approx([rate / 2 / 0.1])


class InTwoParts(SGD):
    """A rule whose rate depends on the number of the step by a branch."""

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"learning_rate": 0.1 if step < 3 else 0.2}


def test_a_branch_on_the_step_is_taken_in_each_step() -> None:
    expected = [0.1, 0.1, 0.2, 0.2, 0.2]
    optimizer = InTwoParts([wy.Parameter(np.ones(3))], 0.1)
    for count in (1, 2, 5):
        assert optimizer.numbers(count)["learning_rate"].tolist() == expected[:count]
    found = []
    for _ in expected:
        found += optimizer.numbers(1)["learning_rate"].tolist()
        optimizer.advance(1)
    assert found == expected


def test_a_number_that_is_the_same_in_all_steps_is_stored_once() -> None:
    parameter = wy.Parameter(np.ones(3))
    optimizer = SGD([parameter], 0.25)
    optimizer.rule(parameter)
    for count in (3, 10_000_000):
        rates = optimizer.numbers(count)["learning_rate"]
        assert rates.shape == (count,) and rates.strides == (0,) and rates[-1] == 0.25
        optimizer.advance(count)


class WithoutNumbers(SGD):
    """A rule that needs no numbers."""

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {}


def test_a_rule_without_numbers_has_none_for_any_steps() -> None:
    optimizer = WithoutNumbers([wy.Parameter(np.ones(3))], 0.1)
    assert [optimizer.numbers(count) for count in (1, 5)] == [{}, {}]


def test_a_hyperparameter_that_there_is_not() -> None:
    class Misspelt(wy.optim.Optimizer):
        def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
            return parameter - hyperparameters["rate"] * gradient, {}

    x = wy.Parameter([1.0, 2.0])
    message = r"Misspelt\.update .* reads the hyperparameter 'rate'; there is learning_rate"
    with pytest.raises(RegistrationError, match=message):
        wy.compile(x.square().sum(), Misspelt([x], 0.1))()
    assert x.value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("declared", [0.1, wy.optim.option(0.1)])
def test_a_learning_rate_that_is_no_rate_is_refused(declared: Any) -> None:
    message = r"^Plain declares its learning_rate as a \w+, .*: write learning_rate: wy\.optim\.Rate = "
    with pytest.raises(RegistrationError, match=message):
        type("Plain", (wy.optim.Optimizer,), {"__annotations__": {"learning_rate": "float"}, "learning_rate": declared})


def test_an_update_returns_the_parameter_and_the_state() -> None:
    class OnlyTheParameter(wy.optim.Optimizer):
        def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
            return parameter - hyperparameters["learning_rate"] * gradient

    x = wy.Parameter([1.0, 2.0])
    x.square().sum().backward()
    message = r"update of OnlyTheParameter must return the new parameter, and the new state .* it returned <Subtract"
    with pytest.raises(RegistrationError, match=message):
        OnlyTheParameter([x], 0.1).step()
    assert x.value.tolist() == [1.0, 2.0]
