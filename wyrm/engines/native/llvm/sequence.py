"""Calls of machine code one after another, in one call from Python; several threads meet at barriers between them.

They may be done several times, each time with other numbers among their arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.memory import atomic_add, atomic_load, atomic_store, call, end_if, words_of
from wyrm.engines.native.llvm.calling import BoundFunction
from wyrm.engines.native.llvm.library import CompiledFunction
from wyrm.support.memory import aligned

# Threads can wait for each other in native code.
BARRIERS = os.name == "posix"
# How often a thread reads whether the others have come before it lets other processes run.
_SPINS = 2000
# The words of the state that threads share, each in a cache line of its own.
_STOP, _ARRIVED, _TURN, _STATE = 0, 8, 16, 24
# The words of a call: the address of a function, or 0 for a barrier; its table; the address of its result, or 0; and
# the least result with which the calls go on.
_CALL = 4


class Call(NamedTuple):
    """A call in a sequence; if its result is below `least`, all threads stop."""

    function: BoundFunction
    least: int | None = None


class SharedState:
    """What the threads of one run share: whether to stop, and who waits at a barrier."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.words: NDArray[np.int64] = aligned((_STATE,), np.dtype(np.int64))

    def begin(self) -> None:
        """Forget the last run."""
        self.words[:] = 0


class CallSequence:
    """The calls of one thread; None is a barrier, where it waits until every thread of the state has come to one.

    Threads have equally many barriers. A call that ends with an error, or with a result below its least one, lets all
    threads end after the calls that they are in.

    `places` are the addresses of words among the arguments of the calls, which each turn of `run` sets first.
    """

    def __init__(self, calls: Sequence[Call | None], state: SharedState, places: Sequence[int] = ()) -> None:
        self.calls = calls
        self._table: NDArray[np.int64] = np.array([_words(each) for each in calls], np.int64).reshape(-1, _CALL)
        # How many calls of the last turn ended well, whether the next one did not, and how many turns ended well.
        self._done: NDArray[np.int64] = np.zeros(3, np.int64)
        arguments = np.array(places, np.int64), self._table, state.words, state.threads, self._done
        once: NDArray[np.int64] = np.zeros((1, len(places)), np.int64)
        self._run = BoundFunction(_compiled(), (once,), arguments, ())
        # The machine code, and the address of the table that it takes, for callers that read the state themselves.
        self.entry: tuple[Callable[[int], int], int] = self._run.entry
        # The status of the last call of the last run, 0 unless it ended with an error.
        self.status: int = 0

    @property
    def ended_by(self) -> Call | None:
        """The call by which this thread ended the last run before its end."""
        return self.calls[self._done[0]] if self._done[1] else None

    @property
    def turns(self) -> int:
        """How many turns of the last run this thread has done."""
        return int(self._done[2])

    def run(self, turns: NDArray[np.int64]) -> None:
        """Do the calls once for each row of `turns`, which has the words that belong at `places`."""
        self._run.take((turns,), ())
        entry, table = self.entry
        self.status = entry(table)


def _words(call: Call | None) -> tuple[int, int, int, int]:
    if call is None:
        return 0, 0, 0, 0
    entry, table, result = call.function.addresses()
    return (entry, table, 0, 0) if call.least is None else (entry, table, result, call.least)


@cache
def _compiled() -> CompiledFunction:
    return CompiledFunction(run_calls)


# --- native code ------------------------------------------------------------------------------------------------------


@KernelFunction
def run_calls(
    turns: np.ndarray, places: np.ndarray, calls: np.ndarray, state: np.ndarray, threads: int, done: np.ndarray
) -> None:
    """Do the calls of a table in turns.

    Write how many calls of the last turn ended well, 1 if the next one did not, and how many turns did.
    """
    done[0], done[1], done[2] = 0, 0, 0
    for turn in range(turns.shape[0]):
        for i in range(places.shape[0]):
            words_of(places[i], 1)[0] = turns[turn, i]
        done[0] = 0
        for i in range(calls.shape[0]):
            if atomic_load(state, _STOP) != 0:
                return
            if calls[i, 0] == 0:
                _meet(state, threads)
            else:
                status = call(calls[i, 0], calls[i, 1])
                if status != 0 or (calls[i, 2] != 0 and words_of(calls[i, 2], 1)[0] < calls[i, 3]):
                    done[1] = 1
                    atomic_store(state, _STOP, 1)
                    end_if(status)
                    return
            done[0] = i + 1
        done[2] = turn + 1


@KernelFunction
def _meet(state: np.ndarray, threads: int) -> None:
    """Wait until all threads have come here, or until one tells the others to stop."""
    turn = atomic_load(state, _TURN)
    if atomic_add(state, _ARRIVED, 1) + 1 == threads:
        atomic_store(state, _ARRIVED, 0)
        atomic_store(state, _TURN, turn + 1)
        return
    tries = 0
    while atomic_load(state, _TURN) == turn and atomic_load(state, _STOP) == 0:
        if BARRIERS and tries > _SPINS:
            call("sched_yield")
        tries += 1
