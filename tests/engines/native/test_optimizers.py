"""Optimizers, and the options that they share, in native code: steps and state are those of the reference engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_training import OPTIMIZERS, eager_epoch, model
from wyrm.errors import Diverged, OptionError, RegistrationError
from wyrm.optim import (
    EMA,
    FTRL,
    LAMB,
    LARS,
    SAGA,
    SGD,
    SWA,
    Adadelta,
    Adafactor,
    Adam,
    Adamax,
    AdamW,
    Combined,
    Cosine,
    Lion,
    Muon,
    NAdam,
    ParameterGroup,
    RAdam,
)


def muon(parameters: list[Any], **options: Any) -> Combined:
    matrices = [parameter for parameter in parameters if len(parameter.dims) == 2]
    others = [parameter for parameter in parameters if len(parameter.dims) != 2]
    return Combined([Muon(matrices, 0.1), AdamW(others, Cosine(0.1, 20))], **options)


def grouped(parameters: list[Any], **options: Any) -> AdamW:
    table, bias, weight, *rest = parameters
    groups: list[ParameterGroup] = [
        {"parameters": [table, weight], "learning_rate_factor": 0.5, "lower": -0.4},
        {"parameters": [bias], "weight_decay": 0.0, "clip_value": 0.01},
        {"parameters": rest, "learning_rate": 0.02},
    ]
    return AdamW(groups, Cosine(0.1, 20), **options)


MAKERS: dict[str, Callable[[Any], wy.optim.Optimizer]] = {
    "Adadelta": lambda p: Adadelta(p, weight_decay=0.1),
    "Adamax": lambda p: Adamax(p, 0.1),
    "NAdam": lambda p: NAdam(p, 0.1),
    "RAdam": lambda p: RAdam(p, 0.1, (0.9, 0.8)),
    "Lion": lambda p: Lion(p, 0.1, weight_decay=0.1),
    "LAMB": lambda p: LAMB(p, 0.1),
    "LARS": lambda p: LARS(p, 0.1, trust=0.1),
    "Adafactor": lambda p: Adafactor(p, 0.1),
    "FTRL": lambda p: FTRL(p, Cosine(0.5, 40), beta=0.5, l1=0.02, l2=0.1),
    "SAGA": lambda p: SAGA(p, Cosine(0.1, 40), 5, l1=0.02, l2=0.1),
    "Muon": muon,
    "groups": grouped,
    "norm": lambda p: Adam(p, 0.1, max_norm=0.2),
    "value": lambda p: SGD(p, 0.1, momentum=0.9, clip_value=0.05),
    "bounds": lambda p: SGD(p, 0.1, lower=-0.3, upper=0.5),
    "EMA": lambda p: SGD(p, 0.1, average=EMA(0.8)),
    "SWA": lambda p: Adam(p, 0.1, average=SWA(start=2, every=3)),
    "everything": lambda p: muon(p, max_norm=0.3, average=EMA(0.8, every=2)),
    "groups and norm": lambda p: grouped(p, max_norm=0.3, average=SWA()),
}
EVERY = {**OPTIMIZERS, **MAKERS}
# Those that no entry names, with their own options.
EVERY |= {
    name: partial(rule, learning_rate=0.01)
    for name, rule in ((name, getattr(wy.optim, name)) for name in wy.optim.__all__)
    if name not in {*EVERY, "Combined", "Optimizer"} and isinstance(rule, type) and issubclass(rule, wy.optim.Optimizer)
}
EPOCHS = 10  # of five steps, the last one of fewer rows


def trained(make: Callable[[Any], wy.optim.Optimizer], run: Callable[[Any, Any, Any], float]) -> Any:
    """Return the losses, values, state and averages after epochs, the last of which is eager."""
    loss, columns, parameters = model(np.float64)
    optimizer = make(parameters)
    losses = [run(loss, columns, optimizer), eager_epoch(loss, columns, optimizer, 4)]
    averages = []
    if optimizer.average is not None:
        with optimizer.average_parameters():
            averages = [parameter.value for parameter in parameters]
    return losses, [parameter.value for parameter in parameters], optimizer.state_dict(), averages


def same(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    for have, want in zip([*one[0], *one[1], *one[3]], [*other[0], *other[1], *other[3]], strict=True):
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
    assert one[2].keys() == other[2].keys()
    for name, want in other[2].items():
        np.testing.assert_allclose(one[2][name], want, rtol=tolerance, atol=tolerance, err_msg=name)


def native(loop: Any = "auto", **options: Any) -> Callable[[Any, Any, Any], float]:
    def run(loss: Any, columns: Any, optimizer: Any) -> float:
        program = wy.compile(loss, optimizer, loop=loop)
        return [float(program.epoch(columns, batch_size=5, **options)) for _ in range(EPOCHS)][-1]

    return run


def eager(loss: Any, columns: Any, optimizer: Any) -> float:
    return [eager_epoch(loss, columns, optimizer, 5) for _ in range(EPOCHS)][-1]


@pytest.mark.parametrize("name", EVERY)
def test_fifty_steps_are_those_of_the_reference(name: str) -> None:
    same(trained(EVERY[name], native()), trained(EVERY[name], eager))


@pytest.mark.parametrize("options", [{"loop": "python"}, {"threads": 2, "mode": "synchronized"}])
@pytest.mark.parametrize("name", ["everything", "groups and norm"])
def test_both_loops_and_synchronized_threads_agree(name: str, options: Any) -> None:
    same(trained(MAKERS[name], native(**options)), trained(MAKERS[name], eager))


def test_single_steps_agree() -> None:
    def run(loss: Any, columns: Any, optimizer: Any) -> float:
        program = wy.compile(loss, optimizer)
        for start in range(0, 20, 5):
            program({leaf: column[start : start + 5] for leaf, column in columns.items()})
        return 0.0

    def eagerly(loss: Any, columns: Any, optimizer: Any) -> float:
        eager_epoch(loss, {leaf: column[:20] for leaf, column in columns.items()}, optimizer, 5)
        return 0.0

    same(trained(MAKERS["everything"], run), trained(MAKERS["everything"], eagerly))


def test_single_precision_agrees() -> None:
    results = []
    for native_engine in (True, False):
        loss, columns, parameters = model(np.float32)
        optimizer = MAKERS["everything"](parameters)
        (native() if native_engine else eager)(loss, columns, optimizer)
        results.append([parameter.value for parameter in parameters])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


class Batch(wy.Dim): ...


def tables(count: int = 400) -> tuple[Any, Any, list[Any]]:
    """Return a loss over rows of tables alone, columns, and the tables."""
    random = np.random.default_rng(2)
    users, items = (wy.Parameter(random.standard_normal((30, 4)), name=name) for name in ("users", "items"))
    bias = wy.Parameter(np.zeros(30), name="bias")
    user, item = (wy.IndexInput(dims=(Batch(),), name=name) for name in ("user", "item"))
    loss = (users.index(user).vector_dot(items.index(item)) + bias.index(item) - 1.0).square().mean()
    return loss, {user: random.integers(0, 30, count), item: random.integers(0, 30, count)}, [users, items, bias]


@pytest.mark.parametrize("options", [{"max_norm": 0.05}, {"average": EMA(0.9)}, {"max_norm": 0.05, "average": SWA()}])
def test_row_sparse_gradients_alone(options: Any) -> None:
    results = []
    for native_engine in (True, False):
        loss, columns, parameters = tables()
        optimizer = wy.optim.Adagrad(parameters, 0.1, **options)
        (native() if native_engine else eager)(loss, columns, optimizer)
        results.append([*(parameter.value for parameter in parameters), *optimizer.state_dict().values()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_synchronized_threads_give_the_same_averages_every_time() -> None:
    results = []
    for _ in range(2):
        loss, columns, parameters = tables(4000)
        optimizer = wy.optim.Adagrad(parameters, 0.1, average=EMA(0.9), max_norm=0.1)
        wy.compile(loss, optimizer).epoch(columns, batch_size=16, threads=2, mode="synchronized")
        results.append({name: array.tobytes() for name, array in optimizer.state_dict().items()})
    assert results[0] == results[1]


def test_hogwild_threads_clip_their_own_gradients() -> None:
    loss, columns, parameters = tables(4000)
    before = [parameter.value for parameter in parameters]
    optimizer = SGD(parameters, 0.5, max_norm=1e-3)
    wy.compile(loss, optimizer).epoch(columns, batch_size=8, threads=2)
    moved = sum(float(np.square(p.value - b).sum()) for p, b in zip(parameters, before, strict=True)) ** 0.5
    assert 0.0 < moved <= 500 * 0.5 * 1e-3 and optimizer.steps == 500


def test_hogwild_threads_refuse_rules_over_whole_parameters() -> None:
    loss, columns, parameters = tables()
    program = wy.compile(loss, LAMB(parameters, 0.1))
    with pytest.raises(OptionError, match=r"LAMB.* rule over whole parameters.* mode='synchronized'"):
        program.epoch(columns, batch_size=8, threads=2)


@pytest.mark.parametrize("size", [1e160, 1e308])
def test_a_norm_that_overflows_diverges_instead_of_standing_still(size: float) -> None:
    weight, x = wy.Parameter(np.array([1.0, 2.0])), wy.Input(dims=(2,), dtype=np.float64)
    program = wy.compile((weight * x).sum(), SGD([weight], 0.1, max_norm=1.0))
    with pytest.raises(Diverged):
        program.epoch({x: np.array([[size, -size]])})
    assert weight.value.tolist() == [1.0, 2.0]


def test_repeated_layers_share_the_function_of_a_rule() -> None:
    weights = [wy.Parameter(np.eye(3) * (i + 1.0)) for i in range(4)]
    x: Any = wy.Input(dims=(Batch(), 3), dtype=np.float64)
    hidden = x
    for weight in weights:
        hidden = (hidden @ weight).tanh()
    program = wy.compile(hidden.square().mean(), Muon(weights, 0.1))
    program.epoch({x: np.random.default_rng(0).standard_normal((8, 3))}, batch_size=4)
    assert program.source.count("def update_whole") == 1


class Halved(wy.Node):
    """An op that only the reference engine computes."""

    __slots__ = ()

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.parents[0].dtype
        return dtype

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] / 2.0

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient / 2.0,)


def test_a_rule_without_a_native_form_trains_in_the_reference_engine_alone() -> None:
    class Odd(wy.optim.Optimizer):
        elementwise = False

        def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
            return parameter - Halved(gradient), {}

    weight = wy.Parameter(1.0)
    optimizer = Odd([weight], 0.1)
    weight.square().backward()
    optimizer.step()
    assert float(weight) == 0.0
    with pytest.raises(RegistrationError, match="rule uses halved, which has no native form"):
        wy.compile((weight * wy.Input(name="x")).square(), optimizer)


def test_averages_are_restored_with_what_diverged() -> None:
    weight, x = wy.Parameter(np.float64(1.0)), wy.Input(dims=(Batch(),), dtype=np.float64)
    optimizer = SGD([weight], 0.1, average=SWA())
    program = wy.compile((weight * x).square().mean(), optimizer)
    program.epoch({x: np.ones(4)})
    state = optimizer.state_dict()
    with pytest.raises(Diverged):
        program.epoch({x: np.array([1.0, 1e200, 1e200])})
    assert {name: array.tolist() for name, array in optimizer.state_dict().items()} == {
        name: array.tolist() for name, array in state.items()
    }


def taken(gradient: Any, totals: Any, **options: Any) -> tuple[str, Any]:
    """Return the native source of a step of Adagrad from 0 with these sums of squares, and the parameter after it."""
    weight = wy.Parameter(np.zeros_like(gradient), name="weight")
    optimizer = wy.optim.Adagrad([weight], 0.5, **options)
    program = wy.compile((weight * gradient).sum(), optimizer)
    optimizer.load_state_dict(optimizer.state_dict() | {"0.total": totals})
    program({})
    return program.source, weight.value.copy()


@pytest.mark.optimized
def test_quotients_by_roots_are_within_3_ulp_and_right_at_the_edges() -> None:
    random: Any = np.random.default_rng(0)
    gradient = (random.normal(size=4099) * 10.0 ** random.uniform(-6, 6, 4099)).astype(np.float32)
    totals = (10.0 ** random.uniform(-20, 12, 4099)).astype(np.float32)
    source, moved = taken(gradient, totals)
    assert "quotient(" in source
    root = np.sqrt((totals + gradient * gradient).astype(np.float64)) + np.float32(1e-10)
    expected = -0.5 * gradient.astype(np.float64) / root
    assert np.max(np.abs(moved - expected) / np.spacing(np.abs(expected).astype(np.float32))) < 3
    edges = np.array([1e19, -1e19, 0.0, 1e-30] * 16, np.float32)
    _, moved = taken(edges, np.zeros_like(edges))
    np.testing.assert_allclose(moved, np.array([-0.5, 0.5, 0.0, -5e-21] * 16), rtol=1e-6)
    with pytest.raises(Diverged, match="the optimizer's state became NaN or infinite"):
        taken(10.0 * edges, np.zeros_like(edges))  # its square overflows


@pytest.mark.parametrize(("epsilon", "dtype", "quick"), [(1e-8, "f4", True), (0.0, "f4", False), (1e-8, "f8", False)])
def test_a_division_by_what_may_be_zero_stays_exact(epsilon: float, dtype: str, quick: bool) -> None:
    source, moved = taken(np.ones(64, dtype), np.ones(64, dtype), epsilon=epsilon)
    assert ("quotient(" in source) is quick
    np.testing.assert_allclose(moved, np.full(64, -0.5 / np.sqrt(2.0)), rtol=1e-6)
