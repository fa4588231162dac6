"""Threads that share work, inside a program: native code starts them, hands them work and waits.

The thread with the work does parts of it too, each of them the next one that nobody has taken. So it never waits for a
thread that is still waking up. Threads sleep while there is no work. One product, or one loop, at a time has them, and
others that run meanwhile use their own thread alone. Then all do so for a while: where a program's callers are as many
as the processors, as in a server, each would wait for threads that another one keeps busy.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.ir.types import INT64, UINT8
from wyrm.engines.native.kernels.calls import builtin
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.memory import (
    address,
    address_of,
    atomic_add,
    atomic_load,
    atomic_store,
    call,
    compare_exchange,
    end_if,
    pause,
    words_of,
)
from wyrm.engines.native.kernels.values import KernelValue, Kind, NumKind, ViewKind, literal
from wyrm.support.memory import ALIGNMENT, aligned

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.expressions import Expressions

# The most threads that share a product.
_MOST = 64
# Threads share products of so many multiplications in small programs too. Loops then fetch a part of the result from
# another core's cache, which takes longer than threads gain in a smaller product.
LARGE_PRODUCTS = 8_000_000
# In place of a number of multiplications: work that threads share, and work that they do not.
ALWAYS, ALONE = 2**62, -1
# How often a thread reads whether it may go on before it sleeps: for 50 to 200 microseconds, as waking up takes that
# long on a virtual machine. The pauses let another thread of the core run meanwhile.
_SPINS = 4000
# The multiplications that are not shared after two threads have met: a second at most, of which the meeting is a small
# part. Loops, whose work has no such number, count as a few.
_AFTER_MEETING, _OF_LOOP = 2**36, 2**22
# The bits of a word that count the parts taken; the others have the turn.
_COUNT_BITS = 32
_COUNTS, _TURNS = 2**_COUNT_BITS - 1, 2 ** (63 - _COUNT_BITS) - 1

# --- the state --------------------------------------------------------------------------------------------------------

# Words of the state, those that several threads write in cache lines of their own. First what Python sets: how many
# threads may share work, and from how many multiplications on.
_LINE = ALIGNMENT // 8
_LIMIT, _LEAST = 0, 1
# Whether mutex and conditions are ready, how many threads have begun, and a place for the identity of one.
_READY, _THREADS, _IDENTITY = _LINE, _LINE + 1, _LINE + 2
# Whether a thread has the others, the number of the work, how many of its parts are taken, and how many are not done.
_BUSY, _TURN, _TAKEN, _PENDING = 2 * _LINE, 3 * _LINE, 4 * _LINE, 5 * _LINE
# The multiplications to do before work is shared again.
_CROWDED = 2 * _LINE + 1
# The work: the function and its arguments; how many turns, in how many parts, each a multiple of a unit; the status.
_FUNCTION, _ARGUMENTS, _COUNT, _UNIT, _PARTS, _STATUS = range(6 * _LINE, 6 * _LINE + 6)
# The size of a mutex and of a condition of any POSIX system is lower.
_OPAQUE = 256 // 8
_MUTEX, _STARTED, _ENDED, _SIZE = range(7 * _LINE, 7 * _LINE + 4 * _OPAQUE, _OPAQUE)
# The symbol of the state.
STATE = "wyrm_pool_state"
_words: Final[NDArray[np.int64]] = aligned((_SIZE,), np.dtype(np.int64))


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _most_threads() -> int:
    """Return how many threads may share a product: one for each processor, or fewer if the environment says so."""
    asked = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    return max(1, min([processors(), _MOST, *(int(each) for each in asked if each.isdigit() and int(each))]))


def limit(threads: int | None) -> None:
    """Let products use at most this many threads; None: all processors. They do, although threads have met before."""
    _words[_LIMIT] = threads or _most_threads()
    _words[_CROWDED] = 0


def share_from(multiplications: int | None) -> None:
    """Let threads share only products of at least so many multiplications; None: all that pay in a program of many."""
    _words[_LEAST] = multiplications or 0


def state_address() -> int:
    """Return the address of the state, for machine code; there is a limit from then on."""
    if not _words[_LIMIT]:
        limit(None)
    # Threads wait in it until the process ends, which is after Python has dropped what modules hold.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_words))
    address: int = _words.ctypes.data
    return address


def _forget() -> None:
    """Forget the threads, which a forked process does not have."""
    _words[_READY:] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# --- native code ------------------------------------------------------------------------------------------------------


def _has_threads() -> bool:
    """Return whether the system has POSIX threads."""
    raise NotImplementedError("only compiled code has a target")


@builtin(_has_threads)
def _translate_has_threads(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    target = body.translation.target
    return literal(target is not None and target.posix)


@KernelFunction
def _place(word: int) -> int:
    """Return the address of a word of the state."""
    return address(words_of(STATE, _SIZE)) + 8 * word


@KernelFunction
def share(function: int, arguments: Any, work: int, count: int, unit: int) -> None:
    """Call `function(arguments, first, end)` for ranges of `count` turns that begin at multiples of `unit`.

    That is in all threads at the same time if `work`, a number of multiplications, `ALWAYS` or `ALONE`, is enough.
    It ends with a status that the function returned, one that is not 0 if there is any.
    """
    if _has_threads():
        state = words_of(STATE, _SIZE)
        limit = atomic_load(state, _LIMIT)
        if limit > 1 and work >= atomic_load(state, _LEAST):
            crowded = atomic_load(state, _CROWDED)
            if crowded > 0:  # threads that count at the same time may count less
                atomic_store(state, _CROWDED, crowded - (work if work < ALWAYS else _OF_LOOP))
            elif compare_exchange(state, _BUSY, 0, 1):
                status = _run(function, arguments, count, unit, limit - 1)
                atomic_store(state, _BUSY, 0)
                end_if(status)
                return
            else:
                atomic_store(state, _CROWDED, _AFTER_MEETING)
    end_if(call(function, arguments, 0, count))


# The kinds of its arguments.
GIVEN: tuple[Kind, ...] = (NumKind(INT64), ViewKind(UINT8, 0, "contiguous"), *[NumKind(INT64)] * 3)


@KernelFunction
def _run(function: int, arguments: Any, count: int, unit: int, others: int) -> int:
    """Share work with at most so many other threads, and do parts of it in this one; return its status."""
    state = words_of(STATE, _SIZE)
    if state[_READY] == 0:
        call("pthread_mutex_init", _place(_MUTEX), 0)
        call("pthread_cond_init", _place(_STARTED), 0)
        call("pthread_cond_init", _place(_ENDED), 0)
        state[_READY] = 1
    while state[_THREADS] < others:
        worker = address_of(_worker, 0)
        if call("pthread_create", _place(_IDENTITY), 0, worker, atomic_load(state, _TURN)) != 0:
            break
        state[_THREADS] += 1
    parts = min(others, state[_THREADS]) + 1
    turn = (atomic_load(state, _TURN) + 1) & _TURNS
    call("pthread_mutex_lock", _place(_MUTEX))
    state[_FUNCTION], state[_ARGUMENTS], state[_COUNT], state[_UNIT] = function, address(arguments), count, unit
    state[_PARTS] = parts
    atomic_store(state, _STATUS, 0)
    atomic_store(state, _PENDING, parts)
    atomic_store(state, _TAKEN, turn << _COUNT_BITS)
    atomic_store(state, _TURN, turn)
    call("pthread_cond_broadcast", _place(_STARTED))
    call("pthread_mutex_unlock", _place(_MUTEX))
    _take_parts(turn, function, address(arguments), count, unit, parts)
    tries = 0
    while atomic_load(state, _PENDING) > 0 and tries < _SPINS:
        pause()
        tries += 1
    call("pthread_mutex_lock", _place(_MUTEX))
    while atomic_load(state, _PENDING) > 0:
        call("pthread_cond_wait", _place(_ENDED), _place(_MUTEX))
    call("pthread_mutex_unlock", _place(_MUTEX))
    return atomic_load(state, _STATUS)


@KernelFunction
def _worker(turn: int) -> None:
    """Wait for work after that of a turn, do parts of it, and begin again: what another thread runs."""
    state = words_of(STATE, _SIZE)
    while True:
        tries = 0
        while atomic_load(state, _TURN) == turn and tries < _SPINS:
            pause()
            tries += 1
        call("pthread_mutex_lock", _place(_MUTEX))
        while atomic_load(state, _TURN) == turn:
            call("pthread_cond_wait", _place(_STARTED), _place(_MUTEX))
        turn = atomic_load(state, _TURN)
        function, arguments, parts = state[_FUNCTION], state[_ARGUMENTS], state[_PARTS]
        count, unit = state[_COUNT], state[_UNIT]
        call("pthread_mutex_unlock", _place(_MUTEX))
        _take_parts(turn, function, arguments, count, unit, parts)


@KernelFunction
def _take_parts(turn: int, function: int, arguments: int, count: int, unit: int, parts: int) -> None:
    """Do those parts of a turn's work that no other thread has taken."""
    state, units = words_of(STATE, _SIZE), (count + unit - 1) // unit
    while True:
        taken = atomic_load(state, _TAKEN)
        part = taken & _COUNTS
        if taken >> _COUNT_BITS != turn or part >= parts:
            break
        if compare_exchange(state, _TAKEN, taken, taken + 1):
            # The last parts are empty if there are more parts than units.
            first, end = units * part // parts * unit, min(units * (part + 1) // parts * unit, count)
            if first < end:
                status = call(function, arguments, first, end)
                if status != 0:
                    atomic_store(state, _STATUS, status)
            if atomic_add(state, _PENDING, -1) == 1:
                call("pthread_mutex_lock", _place(_MUTEX))
                call("pthread_cond_signal", _place(_ENDED))
                call("pthread_mutex_unlock", _place(_MUTEX))
