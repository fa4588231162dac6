"""Groups of parameters with options of their own, and several optimizers as one."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import OptionError
from wyrm.graph.storage import stored
from wyrm.optim import SGD, Adam, AdamW, Combined, Cosine, Muon, clip_by_global_norm


def parameters(count: int = 3) -> list[Any]:
    random = np.random.default_rng(0)
    return [wy.Parameter(random.standard_normal((3, i + 1)), name=f"p{i}") for i in range(count)]


def step(optimizer: wy.optim.Optimizer, seed: int) -> None:
    """Do a step with random gradients."""
    random = np.random.default_rng(seed)
    for parameter in optimizer.parameters:
        stored(parameter).gradient = random.standard_normal(parameter.shape)
    optimizer.step()


def test_groups_equal_pytorch_with_a_schedule_and_clipping() -> None:
    mine = parameters()
    theirs = [torch.tensor(parameter.value, requires_grad=True) for parameter in mine]
    optimizer = AdamW(
        [
            {"parameters": mine[:1], "weight_decay": 0.0, "betas": (0.8, 0.9)},
            {"parameters": mine[1:], "learning_rate_factor": 0.1},
        ],
        learning_rate=Cosine(0.1, steps=8),
        max_norm=0.5,
    )
    groups = [{"params": theirs[:1], "weight_decay": 0.0, "betas": (0.8, 0.9)}, {"params": theirs[1:], "lr": 0.01}]
    peer = torch.optim.AdamW(groups, lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(peer, 8)
    for seed in range(8):
        step(optimizer, seed)
        random = np.random.default_rng(seed)
        for parameter in theirs:
            parameter.grad = torch.tensor(random.standard_normal(tuple(parameter.shape)))
        torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        peer.step()
        scheduler.step()
        for one, two in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one.value, two.detach().numpy(), rtol=1e-5)  # PyTorch adds 1e-6 to the norm


def test_a_group_follows_the_rate_until_it_has_its_own() -> None:
    first, second, third = parameters()
    optimizer = SGD(
        [
            {"parameters": [first]},
            {"parameters": [second], "learning_rate_factor": 0.5},
            {"parameters": [third], "learning_rate": 3.0},
        ],
        1.0,
    )
    assert [group.learning_rate for group in optimizer.groups] == [1.0, 0.5, 3.0]
    optimizer.learning_rate = 2.0
    assert [group.learning_rate for group in optimizer.groups] == [2.0, 1.0, 3.0]
    optimizer.groups[1].learning_rate = 7.0
    optimizer.learning_rate = Cosine(4.0, steps=2)
    assert [group.learning_rate for group in optimizer.groups] == [4.0, 7.0, 3.0]
    step(optimizer, 0)
    assert [group.learning_rate for group in optimizer.groups] == [2.0, 7.0, 3.0]


def test_groups_may_have_other_state() -> None:
    first, second = parameters(2)
    optimizer = SGD([{"parameters": [first], "momentum": 0.9}, {"parameters": [second]}], 0.1)
    assert [list(optimizer.state_of(each)) for each in (first, second)] == [["velocity"], []]
    step(optimizer, 0)
    assert set(optimizer.state_dict()) == {"0.velocity", "steps", "counts"}


def test_bounds_and_clipping_by_group() -> None:
    first, second = parameters(2)
    optimizer = SGD(
        [{"parameters": [first], "lower": 0.0, "clip_value": 0.1}, {"parameters": [second]}], 1.0, upper=0.5
    )
    before = first.value, second.value
    random = np.random.default_rng(0)
    slopes = [random.standard_normal(each.shape) for each in (first, second)]
    step(optimizer, 0)
    np.testing.assert_allclose(first.value, np.clip(before[0] - np.clip(slopes[0], -0.1, 0.1), 0.0, 0.5))
    np.testing.assert_allclose(second.value, np.minimum(before[1] - slopes[1], 0.5))


def test_what_is_wrong_with_groups_is_said() -> None:
    first, second, third = parameters()
    with pytest.raises(ValueError, match=r"SGD has p1 .* in groups 0 and 1"):
        SGD([{"parameters": [first, second]}, {"parameters": [third, second]}], 0.1)
    with pytest.raises(OptionError, match="has no option 'momentumm'; it may have learning_rate_factor, "):
        SGD([{"parameters": [first], "momentumm": 0.1}], 0.1)  # type: ignore[list-item]  # no such entry
    with pytest.raises(OptionError, match="has no option 'max_norm'"):
        SGD([{"parameters": [first], "max_norm": 0.1}], 0.1)  # type: ignore[list-item]  # no such entry
    with pytest.raises(OptionError, match='group 0 of SGD has no entry "parameters"'):
        SGD([{"params": [first]}], 0.1)  # type: ignore[list-item]  # no such entry
    with pytest.raises(OptionError, match="either a learning_rate or a learning_rate_factor"):
        SGD([{"parameters": [first], "learning_rate": 0.1, "learning_rate_factor": 0.1}], 0.1)
    with pytest.raises(TypeError, match="not a list of both"):
        SGD([{"parameters": [first]}, second], 0.1)
    with pytest.raises(OptionError, match=r"momentum must be in \[0, 1\)"):
        SGD([{"parameters": [first], "momentum": 1.5}], 0.1)
    optimizer = SGD([{"parameters": [first]}, {"parameters": [second]}], 0.1, max_norm=1.0)
    with pytest.raises(AttributeError, match=r"set it in groups\[i\]"):
        optimizer.momentum = 0.5
    with pytest.raises(AttributeError, match="max_norm of SGD cannot change"):
        optimizer.max_norm = 2.0
    with pytest.raises(OptionError, match="is a group of another optimizer"):
        optimizer.groups[0].step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_norm": 0.0}, "max_norm must be above 0"), ({"clip_value": -1.0}, "clip_value must be above 0"),
        ({"lower": float("nan")}, "lower must be finite"), ({"lower": 1.0, "upper": 0.0}, "at most upper=0"),
        ({"average": 0.9}, "must be an average"), ({"max_norm": "1"}, "max_norm must be a number"),
    ],
)  # fmt: skip
def test_shared_options_are_checked(options: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Adam(parameters(), **options)


@pytest.mark.parametrize("make", [Adam, SGD, Muon, wy.optim.LAMB])
def test_an_unknown_option_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match=f"{make.__name__}.*unexpected keyword argument 'max_nrom'"):
        make(parameters(), 0.1, max_nrom=1.0)
    with pytest.raises(TypeError, match=r"takes no keyword 'lr': .*learning_rate"):
        make(parameters(), lr=0.1)


def test_an_unknown_option_of_a_subclass_is_refused() -> None:
    class Mine(Adam):
        def __init__(self, parameters: Any, **keywords: Any) -> None:
            super().__init__(parameters, **keywords)

    assert Mine(parameters(), betas=(0.5, 0.5), max_norm=1.0).betas == (0.5, 0.5)
    with pytest.raises(TypeError, match=r"Mine.*unexpected keyword argument 'max_nrom'"):
        Mine(parameters(), max_nrom=1.0)


@pytest.mark.parametrize("state", ["running mean", "mean__2"])
def test_names_that_could_clash_are_refused(state: str) -> None:
    class Odd(wy.optim.Optimizer):
        def initial_state(self) -> dict[str, float]:
            return {state: 0.0}

        def update(self, parameter: Any, gradient: Any, state: Any, hyperparameters: Any) -> Any:
            return parameter, dict(state)

    with pytest.raises(wy.errors.RegistrationError, match="an identifier without two underscores"):
        step(Odd(parameters(), 0.1), 0)


def test_a_grouped_optimizer_says_what_it_is() -> None:
    first, second, third = parameters()
    optimizer = SGD([{"parameters": [first], "momentum": 0.9}, {"parameters": [second, third]}], 0.5, max_norm=1.0)
    assert repr(optimizer) == (
        "SGD(3 parameters, learning_rate=0.5, momentum=0.0, nesterov=False, weight_decay=0.0, max_norm=1.0; "
        "group 0: SGD(1, momentum=0.9); group 1: SGD(2))"
    )


def test_clipping_in_the_optimizer_equals_clipping_before_it() -> None:
    results = []
    for inside in (True, False):
        mine = parameters()
        optimizer = Adam(mine, 0.1, max_norm=0.3 if inside else None)
        for seed in range(5):
            random = np.random.default_rng(seed)
            for parameter in mine:
                stored(parameter).gradient = random.standard_normal(parameter.shape)
            if not inside:
                clip_by_global_norm(mine, 0.3)
            optimizer.step()
        results.append([parameter.value for parameter in mine])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


# --- several optimizers -----------------------------------------------------------------------------------------------


def make(mine: list[Any]) -> Combined:
    matrices, others = Muon(mine[:1], 0.1), AdamW([{"parameters": mine[1:2]}, {"parameters": mine[2:]}], 0.01)
    return Combined([matrices, others], max_norm=1.0)


def test_combined_steps_are_those_of_its_optimizers() -> None:
    one, two = parameters(), parameters()
    combined, separate = make(one), [Muon(two[:1], 0.1), AdamW(two[1:], 0.01)]
    assert [type(group).__name__ for group in combined.groups] == ["Muon", "AdamW", "AdamW"]
    for seed in range(4):
        step(combined, seed)
        random = np.random.default_rng(seed)
        for parameter in two:
            stored(parameter).gradient = random.standard_normal(parameter.shape)
        clip_by_global_norm(two, 1.0)
        for optimizer in separate:
            optimizer.step()
    for have, want in zip(one, two, strict=True):
        np.testing.assert_allclose(have.value, want.value, rtol=1e-12)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_of_groups_have_their_own_state(copied: Any) -> None:
    optimizer = make(parameters())
    step(optimizer, 0)
    twin = copied(optimizer)
    step(optimizer, 1)
    assert (optimizer.steps, twin.steps) == (2, 1)
    assert [group.steps for group in twin.groups] == [1, 1, 1]
    step(twin, 1)
    for name, array in optimizer.state_dict().items():
        np.testing.assert_array_equal(array, twin.state_dict()[name])


def test_combined_refuses_what_would_be_wrong_in_silence() -> None:
    first, second, _ = parameters()
    used = SGD([first], 0.1)
    step(used, 0)
    with pytest.raises(OptionError, match="this SGD has done steps"):
        Combined([used])
    with pytest.raises(OptionError, match="give them to Combined"):
        Combined([SGD([first], 0.1, max_norm=1.0)])
    with pytest.raises(ValueError, match="in groups 0 and 1"):
        Combined([SGD([first], 0.1), SGD([first, second], 0.1)])
    with pytest.raises(TypeError, match="Combined takes optimizers, not Parameter"):
        Combined([first])
    with pytest.raises(OptionError, match="no optimizers"):
        Combined([])
    part = SGD([first], 0.1)
    combined = Combined([part])
    with pytest.raises(OptionError, match="is a group of another"):
        part.step()
    with pytest.raises(AttributeError, match="rates of their own"):
        combined.learning_rate = 1.0
    part.learning_rate = 0.7
    assert combined.learning_rate == 0.7
