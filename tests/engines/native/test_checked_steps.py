"""Calls with an optimizer: what they check before they change anything, and the bounds that make copies needless."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.ir.arrays import ArrayFunction, CallStatement, CountedLoop, When
from wyrm.engines.native.run import steps
from wyrm.engines.native.run.bounds import RuleBounds, bounds_of, norm_bounds
from wyrm.engines.native.stages.updates import added_sum, beyond_limit, plain_sum, sum_of_rows
from wyrm.errors import Diverged
from wyrm.graph.storage import stored


class Batch(wy.Dim): ...


OPTIMIZERS = {
    "SGD": lambda given: wy.optim.SGD(given, 0.1),
    "momentum": lambda given: wy.optim.SGD(given, 0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda given: wy.optim.Adam(given, 0.01),
    "Adam, decaying": lambda given: wy.optim.Adam(given, 0.01, weight_decay=0.1),
    "AdamW, clipped": lambda given: wy.optim.AdamW(given, 0.01, max_norm=1.0),
    "AdamW, averaged": lambda given: wy.optim.AdamW(given, 0.01, average=wy.optim.EMA(0.9)),
    "Adagrad": lambda given: wy.optim.Adagrad(given, 0.1),
    "Adadelta": lambda given: wy.optim.Adadelta(given, 1.0),
    "Lion": lambda given: wy.optim.Lion(given, 0.01),
    "RMSprop": lambda given: wy.optim.RMSprop(given, 0.01, centered=True, momentum=0.9),
    "LAMB": lambda given: wy.optim.LAMB(given, 0.01),
}


def two_layers(dtype: Any, optimizer: Any) -> tuple[Any, dict[Any, np.ndarray], list[Any], Any]:
    """Return a program of two matrices of which one is looked up, its data, its parameters and its optimizer."""
    random = np.random.default_rng(0)
    table = wy.Parameter(random.normal(size=(7, 4)).astype(dtype), name="table")
    matrix = wy.Parameter(random.normal(size=(4, 3)).astype(dtype), name="matrix")
    rows, targets = wy.IndexInput(dims=(Batch(),)), wy.Input(dims=(Batch(), 3), dtype=dtype)
    loss: Any = (table[rows] @ matrix - targets).square().mean()
    made = optimizer([table, matrix])
    data = {rows: random.integers(0, 7, 5), targets: random.normal(size=(5, 3)).astype(dtype)}
    return wy.compile(loss, made), data, [table, matrix], made


def everything(parameters: list[Any], optimizer: Any) -> list[np.ndarray]:
    """Return copies of all parameters and all state."""
    state: Mapping[str, np.ndarray] = optimizer.state_dict()
    return [*(each.value.copy() for each in parameters), *(np.array(each) for each in state.values())]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_an_epoch_of_one_step(name: str, dtype: type) -> None:
    results = []
    for calls in (True, False):
        program, data, parameters, optimizer = two_layers(dtype, OPTIMIZERS[name])
        for _ in range(5):
            if calls:
                program(data)
            else:
                program.epoch(data, batch_size=5, shuffle=False)
        results.append(everything(parameters, optimizer))
    for got, want in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_of_any_size_leave_finite_numbers_or_nothing_changed(name: str) -> None:
    # From gradients that squares take beyond the largest number, down to small ones.
    program, data, parameters, optimizer = two_layers(np.float32, OPTIMIZERS[name])
    moved, stayed, start = 0, 0, [each.value.copy() for each in parameters]
    for size in (1.0, 1e3, 1e18, 1.0, 1e22, 1e30, 1e38, 1.0, 1e9, 1.0):
        for parameter, value in zip(parameters, start, strict=True):
            parameter.set(value)
        before = everything(parameters, optimizer)
        given = {leaf: array * np.float32(size) if array.dtype.kind == "f" else array for leaf, array in data.items()}
        try:
            program(given)
        except Diverged as error:
            assert "no parameter has moved" in str(error)
            stayed += 1
            for got, want in zip(everything(parameters, optimizer), before, strict=True):
                np.testing.assert_array_equal(got, want)
        else:
            moved += 1
            assert all(np.isfinite(each).all() for each in everything(parameters, optimizer))
    assert moved >= 5
    assert stayed >= 1


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW, clipped", "Adagrad", "Lion"])
def test_small_gradients_need_no_copy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, data, _, _ = two_layers(np.float32, OPTIMIZERS[name])
    copies: list[str] = []
    monkeypatch.setattr(steps, "Snapshot", lambda *_: copies.append("rows"))
    monkeypatch.setattr(type(program._engine), "snapshot_of_all", lambda _: copies.append("all"))
    measured: list[np.ndarray] = []

    def noted(array: np.ndarray, negative: bool = True) -> tuple[float, float]:
        measured.append(array)
        return norm_bounds(array, negative)

    monkeypatch.setattr(steps, "norm_bounds", noted)
    monkeypatch.setattr(steps, "bounds_of", lambda _: pytest.fail("the norms are enough"))
    program(data)
    assert measured
    measured.clear()
    for _ in range(50):
        program(data)
    assert copies == []
    assert measured == [], "bounds hold for many steps"


def test_what_changes_between_calls_is_measured_again() -> None:
    weight, x = wy.Parameter(1.0), wy.Input()
    optimizer = wy.optim.SGD([weight], 0.5)
    program: Any = wy.compile((weight * x).square(), optimizer)
    program({x: 1.0})
    weight.set(3e38)
    before = float(weight)
    with pytest.raises(Diverged):  # the loss
        program({x: 1.0})
    assert float(weight) == before


def test_a_parameter_set_to_a_large_number_moves_nothing_beyond_the_largest() -> None:
    weight, x = wy.Parameter(1.0), wy.Input()
    program: Any = wy.compile(weight * -x, wy.optim.SGD([weight], 3e38))
    with pytest.raises(Diverged, match="no parameter has moved"):
        program({x: 2.0})
    program({x: 1e-30})
    weight.set(3.4e38)
    before = float(weight)
    # The loss is -3.4e36 and the gradient is -0.01, but 3.4e38 + 3e38 * 0.01 is beyond 3.403e38.
    with pytest.raises(Diverged, match="became NaN or infinite in step 2"):
        program({x: 1e-2})
    assert float(weight) == before


def test_a_buffer_that_would_overflow_moves_nothing() -> None:
    norm: Any = wy.nn.BatchNorm(2, momentum=1.0)
    x, scale = wy.Input(dims=(4, 2)), wy.Parameter(1.0)
    loss: Any = (norm(x) * scale).mean()
    program: Any = wy.compile(loss, wy.optim.SGD([scale, *norm.parameters()], 0.1))
    good = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    program({x: good})
    before = {name: array.copy() for name, array in norm.state_dict().items()}
    # The normalized values are finite, the unbiased variance is not.
    with pytest.raises(Diverged):
        program({x: good * np.float32(1e19)})
    for name, array in norm.state_dict().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_a_step_updates_after_all_checks_and_an_epoch_checks_nothing() -> None:
    random = np.random.default_rng(0)
    weights = [wy.Parameter(random.normal(size=(400, 400)).astype(np.float32)) for _ in range(2)]
    x = wy.Input(dims=(Batch(), 400))
    loss: Any = (x @ weights[0] @ weights[1]).square().mean()
    program: Any = wy.compile(loss, wy.optim.Adam(weights, 0.01))
    source = program._engine.graph.source
    loop, _ = source.checked().run.code.body
    assert isinstance(loop, CountedLoop)
    names = [each.function.__name__ if isinstance(each, CallStatement) else "" for each in loop.body]
    first_update = next(i for i, name in enumerate(names) if name.startswith("update"))
    last_end = max(i for i, each in enumerate(loop.body) if isinstance(each, When))
    counting = [i for i, name in enumerate(names) if name.startswith(("count_", "add_counts"))]
    assert counting
    assert max(counting) < last_end < first_update
    of_rows = [each.function for each in source.checked().calls if each.function.__name__.startswith("count_in_rows")]
    assert len(of_rows) == 2
    assert all(function.divided for function in of_rows), "threads share the check of a large gradient"
    assert not any(name in source.text for name in ("count_beyond", "count_in_rows", "beyond_"))
    assert "kept" not in source.text


FLOAT32 = np.dtype(np.float32)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (added_sum("f", beyond_limit(FLOAT32), FLOAT32), "array, limit, total"),
        (added_sum("f", beyond_limit(FLOAT32), FLOAT32, 2), "array, limit, total, count"),
        (sum_of_rows("f", beyond_limit(FLOAT32), FLOAT32), "array, limit, sums"),
        (added_sum("f", plain_sum(FLOAT32), FLOAT32), "sums, total"),
    ],
)
def test_functions_of_checks_are_readable(function: ArrayFunction, arguments: str) -> None:
    assert function.text.startswith(f"def f({arguments}):")


def test_a_large_gradient_with_one_number_beyond_is_found() -> None:
    table = wy.Parameter(np.ones((600, 300), np.float32))
    x = wy.Input(dims=(600, 300))
    program: Any = wy.compile((table * x).sqrt().sum(), wy.optim.SGD([table], 1e-3))
    data = np.ones((600, 300), np.float32)
    program({x: data})
    before = table.value.copy()
    data[437, 211] = 0.0
    with pytest.raises(Diverged, match="no parameter has moved"):
        program({x: data})
    np.testing.assert_array_equal(table.value, before)


# --- bounds -----------------------------------------------------------------------------------------------------------


def _rule(optimizer: Any) -> tuple[Any, Any, Any]:
    parameter = wy.Parameter(np.ones(64, np.float32))
    made = optimizer([parameter])
    return made.rule(parameter), made, parameter


# Float32 rounds each step.
_ROUNDING = 1.0 + 1e-5


@pytest.mark.parametrize("name", [each for each in OPTIMIZERS if each != "LAMB"])
def test_steps_stay_within_their_bounds(name: str) -> None:
    rule, optimizer, parameter = _rule(OPTIMIZERS[name])
    bounds, random = RuleBounds(rule), np.random.default_rng(1)
    before = [(-1.0, 1.0), *((0.0, 0.0) for _ in rule.state)]
    checked = 0
    for step in range(30):
        numbers = {key: float(values[0]) for key, values in optimizer.numbers(1, [parameter]).items()}
        numbers.setdefault("gradient__scale", 1.0)
        arrays = [parameter.value.copy(), *(optimizer.state_of(parameter)[key].copy() for key in rule.state)]
        for array, (least, most) in zip(arrays, before, strict=True):
            assert least * _ROUNDING <= array.min()
            assert array.max() <= most * _ROUNDING
        size = 10.0 ** random.uniform(-8, 3)
        gradient = (random.normal(size=64) * size).astype(np.float32)
        most = float(np.abs(gradient).max())
        after = bounds.after_step(before, (-most, most), {key: (value, value) for key, value in numbers.items()})
        stored(parameter).gradient = gradient
        optimizer.step()
        # These bounds grow with each step, until there are none.
        assert after is not None or name in ("Adadelta", "Adam, decaying")
        state = optimizer.state_of(parameter)
        before = after or [bounds_of(array) for array in (parameter.value, *(state[key] for key in rule.state))]
        checked += step > 0
    assert checked == 29


def test_bounds_of_many_steps_hold_after_them() -> None:
    rule, _, _ = _rule(lambda given: wy.optim.SGD(given, 1.0))
    count = RuleBounds(rule).steps([(-1.0, 1.0)], (-4.0, 4.0), {"learning_rate": (0.5, 2.0)})
    assert count == 2**20
    assert RuleBounds(rule).steps([(-1.0, 1.0)], (-4.0, 4.0), {"learning_rate": (2.0**68, 2.0**68)}) == 2
    assert RuleBounds(rule).steps([(-1.0, 1.0)], (-4.0, 4.0), {"learning_rate": (2.0**80, 2.0**80)}) == 0
    assert RuleBounds(rule).steps([(-math.inf, 1.0)], (-4.0, 4.0), {"learning_rate": (1.0, 1.0)}) == 0


@wy.optim.with_options
class Inverse(wy.optim.Optimizer):
    """Divides by the gradient."""

    learning_rate: wy.optim.Rate = wy.optim.Rate(0.1)

    def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
        """Return the new parameter."""
        return parameter - hyperparameters["learning_rate"] / gradient, {}


def test_a_rule_that_divides_by_what_may_be_zero_has_no_bounds_and_changes_nothing() -> None:
    weight, x = wy.Parameter(1.0), wy.Input()
    program: Any = wy.compile(weight * x, Inverse([weight]))
    rule = program._engine.graph.optimizer.rule(weight)
    assert RuleBounds(rule).after_step([(0.0, 1.0)], (-1.0, 1.0), {"learning_rate": (0.1, 0.1)}) is None
    program({x: 2.0})
    assert float(weight) == pytest.approx(0.95)
    with pytest.raises(Diverged):
        program({x: 0.0})
    assert float(weight) == pytest.approx(0.95)


def test_bounds_of_arrays() -> None:
    assert bounds_of(np.array([-2.0, 5.0], np.float32)) == (-2.0, 5.0)
    assert bounds_of(np.zeros(0)) == (0.0, 0.0)
    many = np.zeros(200_000, np.float32)
    many[[70_000, 199_999]] = 3.0, -1.0
    assert bounds_of(many) == (-1.0, 3.0)
    many[5] = np.nan
    assert all(math.isnan(each) for each in bounds_of(many))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_by_norms_contain_all_elements(dtype: type) -> None:
    random = np.random.default_rng(2)
    for size in (1, 2, 1000, 300_000):
        for scale in (1e-30, 1.0, 1e15):
            array: Any = (random.normal(size=size) * scale).astype(dtype)
            least, most = norm_bounds(array)
            assert least <= array.min() <= array.max() <= most
    assert norm_bounds(np.array([0.0, 2.0], dtype), False)[0] == 0.0
    assert not norm_bounds(np.array([np.nan], dtype))[1] < np.inf
    assert norm_bounds(np.array([1e30, 0.0], np.float32))[1] == np.inf


# --- what bounds must not miss ----------------------------------------------------------------------------------------


def _refused(program: Any, feed: Any, parameter: Any, calls: int = 1) -> None:
    """Check that one of so many calls raises, that nothing has changed then, and that all was finite before."""
    for _ in range(calls):
        before = parameter.value.copy()
        assert np.isfinite(before).all()
        try:
            program(feed)
        except Diverged:
            np.testing.assert_array_equal(parameter.value, before)
            return
    pytest.fail("no call raises")


def test_a_loaded_state_is_measured_again() -> None:
    weight, x = wy.Parameter(1.0), wy.Input()
    optimizer = wy.optim.SGD([weight], 100.0, momentum=0.9)
    program: Any = wy.compile(weight * x, optimizer)
    program({x: 1e-3})
    optimizer.load_state_dict(optimizer.state_dict() | {"0.velocity": np.array(3e38, np.float32)})
    _refused(program, {x: 1e-3}, weight)


def test_an_average_far_from_its_parameter() -> None:
    weight, x = wy.Parameter(3e38), wy.Input()
    optimizer = wy.optim.SGD([weight], 0.1, average=wy.optim.EMA(0.9))
    program: Any = wy.compile(weight * x, optimizer)
    weight.set(-8e37)
    _refused(program, {x: 1e-3}, weight)
    assert all(np.isfinite(each).all() for each in optimizer.state_dict().values())


def test_a_decay_beyond_the_dtype() -> None:
    weight, x = wy.Parameter(0.0), wy.Input()
    program: Any = wy.compile(weight * x, wy.optim.AdamW([weight], 1e-2, weight_decay=1e41))
    _refused(program, {x: 1e-3}, weight)


class OfRule(wy.optim.Optimizer):
    """An optimizer of a rule, more hyperparameters and an initial state, for tests."""

    def __init__(self, given: Any, rule: Any, more: Any, start: Any) -> None:
        self._rule, self._more, self._start = rule, more, start
        super().__init__(given, 0.1)

    def initial_state(self) -> Mapping[str, float]:
        return dict(self._start)

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"learning_rate": self.learning_rate, **self._more}

    def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
        return self._rule(parameter, gradient, state, hyperparameters)


@pytest.mark.parametrize(
    ("rule", "more", "start"),
    [
        (lambda p, g, s, h: (p - g * (h["a"] - h["b"]), {}), {"a": 1e39, "b": 1e39}, {}),
        (lambda p, g, s, h: (p - g.minimum(h["clip"]), {}), {"clip": math.nan}, {}),
        (lambda p, g, s, h: (p - h["learning_rate"] * g / h["eps"].square().sqrt(), {}), {"eps": 1e-25}, {}),
        (
            lambda p, g, s, h: (p - g / (s["a"] * s["a"] + h["eps"] * h["eps"]).sqrt(), {"a": s["a"]}),
            {"eps": 1e-25},
            {"a": 0.0},
        ),
        (lambda p, g, s, h: (p - h["learning_rate"] * g / (1.0 - h["beta"]), {}), {"beta": 1.0 - 1e-9}, {}),
        (
            lambda p, g, s, h: (s["f"] * p - h["learning_rate"] * g, {"f": s["f"].sign() * 1.5}),
            {},
            {"f": 1.0},
        ),
        (lambda p, g, s, h: (s["f"] * p - h["learning_rate"] * g, {"f": s["f"] + 1.0}), {}, {"f": 1.0}),
    ],
    ids=["infinite", "nan", "underflow", "underflow of a sum", "cancellation", "a factor that grows", "and grows"],
)
def test_what_overflows_in_float32_changes_nothing(rule: Any, more: Any, start: Any) -> None:
    weight, x = wy.Parameter(1.0), wy.Input()
    program: Any = wy.compile(weight * x, OfRule([weight], rule, more, start))
    _refused(program, {x: 1e-3}, weight, calls=300)


def test_bounds_of_a_step_that_was_not_done_are_not_taken_over() -> None:
    weight, x = wy.Parameter(1e10), wy.Input()
    # `f` has no bounds for many steps, and each step halves the parameter.
    optimizer = OfRule(
        [weight], lambda p, g, s, h: (p * h["factor"], {"f": s["f"] * 2.0}), more := {"factor": 0.5}, {"f": 1.0}
    )
    program: Any = wy.compile(weight * x, optimizer)
    program({x: 1e-3})
    for _ in range(40):
        with pytest.raises(Diverged, match="the loss is inf"):
            program({x: 3e38})
    more["factor"] = 1e29
    optimizer.learning_rate = 0.2  # the numbers of steps are computed anew
    _refused(program, {x: 1e-3}, weight)
