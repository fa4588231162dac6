"""A program's counters can be given to another program, which continues with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError

X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)


def trained() -> tuple[wy.Parameter[Any], wy.optim.SGD, wy.Program, wy.Input[Any]]:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 3), name="x")
    weight = wy.Parameter(np.ones((3, 2), np.float32), name="weight")
    loss = (x @ weight).dropout(0.5, seed=4, stream=2).square().mean()
    optimizer = wy.optim.SGD([weight], 0.05, momentum=0.9)
    return weight, optimizer, wy.compile(loss, optimizer), x


def test_steps_and_epochs_are_counted() -> None:
    _, _, program, x = trained()
    assert program.state_dict() == {"steps": 0, "epochs": 0}
    program.epoch({x: X}, batch_size=10)
    program({x: X})
    assert program.state_dict() == {"steps": 8, "epochs": 1}


@pytest.mark.parametrize("options", [{}, {"threads": 2, "mode": "synchronized"}])
def test_another_program_goes_on_with_the_same_bits(options: Any) -> None:
    weight, optimizer, program, x = trained()
    for _ in range(2):
        program.epoch({x: X}, batch_size=16, shuffle=True, **options)
    kept = weight.value.copy(), optimizer.state_dict(), program.state_dict()
    program.epoch({x: X}, batch_size=16, shuffle=True, **options)
    program({x: X})

    again, other_optimizer, other, other_x = trained()
    again.set(kept[0])
    other_optimizer.load_state_dict(kept[1])
    other.load_state_dict(kept[2])
    other.epoch({other_x: X}, batch_size=16, shuffle=True, **options)
    other({other_x: X})
    assert again.value.tobytes() == weight.value.tobytes()
    assert other.state_dict() == program.state_dict()

    # Without the counters, the dropout masks and the order of rows differ.
    other.load_state_dict({"steps": 0, "epochs": 0})
    again.set(kept[0])
    other_optimizer.load_state_dict(kept[1])
    other.epoch({other_x: X}, batch_size=16, shuffle=True, **options)
    other({other_x: X})
    assert again.value.tobytes() != weight.value.tobytes()


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"steps": 3}, r"the state of a program must be \{'steps': \.\.\., 'epochs': \.\.\.\}, not \{'steps': 3\}"),
        ({"steps": 3, "epochs": 1, "more": 2}, "the state of a program must be"),
        (None, "the state of a program must be"),
        ({"steps": -1, "epochs": 1}, "steps of a program must be an integer of at least 0 and below 2\\*\\*62, not -1"),
        (
            {"steps": 1, "epochs": 0.5},
            r"epochs of a program must be an integer of at least 0 and below 2\*\*62, not 0\.5",
        ),
        (
            {"steps": True, "epochs": 1},
            "steps of a program must be an integer of at least 0 and below 2\\*\\*62, not True",
        ),
    ],
)
def test_a_state_of_another_kind_changes_nothing(state: Any, reason: str) -> None:
    _, _, program, x = trained()
    program({x: X})
    with pytest.raises(CheckpointError, match=reason):
        program.load_state_dict(state)
    assert program.state_dict() == {"steps": 1, "epochs": 0}
