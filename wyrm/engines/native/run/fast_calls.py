"""Calls of small programs that were called often: everything that does not change between them is looked up once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.native.llvm.calling import BoundFunction
from wyrm.engines.native.run.shuffle import are_within, bound, is_finite
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.write import Head
from wyrm.graph.storage import LARGEST, Storage

# Calls after which a program is worth the milliseconds that preparing takes.
OFTEN = 50


class Taken(NamedTuple):
    """An input: the key of its data in a call, the program's array that the data is copied to, and its checks.

    `limits` are pairs: indices must be at least the first number and below the second one.
    """

    key: Any
    target: np.ndarray
    finite: bool
    limits: Sequence[tuple[int, int]]


# Takes the data by key, and the step number; returns the outputs, None if the data or the state is not as before.
FastCall = Callable[[Any, int], list[Any] | None]


def fast_call(
    binding: Binding, run: BoundFunction, inputs: Sequence[Taken], outputs: Sequence[np.ndarray], by_key: bool
) -> FastCall:
    """Return a function that copies data of the same shapes and dtypes, checks it, runs and copies the outputs.

    `by_key`: the data is a dict; else it is a sequence, and outputs without axes are numbers. Where the function
    returns None, nothing has happened that the full call does not do again, which also raises the errors.
    """
    from wyrm.engines.native.llvm.sequence import Call, CallSequence, SharedState

    checks = [Call(bound(is_finite, each.target.reshape(-1)), 1) for each in inputs if each.finite]
    checks += [Call(bound(are_within, each.target.reshape(-1), *limit), 1) for each in inputs for limit in each.limits]
    state = SharedState(1)
    checked = CallSequence([*checks, Call(run)], state) if checks else None
    stop, words, step_word = state.words.data, run.words, run.word_of(Head._fields.index("step"))
    entry, address = run.entry if checked is None else checked.entry
    held: list[tuple[Storage, np.ndarray]] = binding.held
    taken = [(each.key, each.target, each.target.dtype, each.target.shape, _largest(each)) for each in inputs]
    count, kept = len(taken), (run, checked, state)

    def refused() -> None:
        kept[2].begin()
        binding.forget_rows()

    def call(data: Any, step: int) -> list[Any] | None:
        if len(data) != count:
            return None
        for storage, array in held:
            if storage.array is not array:
                return None
        for key, target, dtype, shape, largest in taken:
            value = data.get(key) if by_key else data[key]
            if type(value) is np.ndarray:
                if value.dtype is not dtype or value.shape != shape:
                    return None
            elif type(value) is not float or not -largest <= value <= largest:
                return None
            target[...] = value
        words[step_word] = step
        if entry(address) or stop[0]:
            refused()
            return None
        if by_key:
            return [array.copy("K") for array in outputs]
        return [array.copy("K") if array.shape else array[()] for array in outputs]

    return call


def _largest(taken: Taken) -> float:
    """Return the largest number of Python's that may stand for the data; below 0 if none may."""
    return -1.0 if taken.target.shape else LARGEST.get(taken.target.dtype, -1.0)
