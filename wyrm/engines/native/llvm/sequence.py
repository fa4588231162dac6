"""Calls of machine code one after another, in one call from Python; several threads meet at barriers between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.llvm import cache as code_cache
from wyrm.engines.native.llvm.calling import BoundFunction, address_of
from wyrm.engines.native.llvm.emit import ENTRY
from wyrm.engines.native.llvm.library import entry_of
from wyrm.engines.native.llvm.optimize import machine_code
from wyrm.engines.native.products.writer import Writer
from wyrm.support.memory import aligned

# Threads can wait for each other in native code.
BARRIERS = os.name == "posix"
# How often a thread reads whether the others have come before it lets other processes run.
_SPINS = 2000
# The words of the state that threads share, each in a cache line of its own.
_STOP, _ARRIVED, _TURN, _STATE = 0, 8, 16, 24
# The words of a table before its calls: the address of the state, the number of threads, that of calls, and, written by
# the run, how many calls ended well and whether the next one did not.
_HEAD, _DONE, _FAILED = 5, 3, 4
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
    """

    def __init__(self, calls: Sequence[Call | None], state: SharedState) -> None:
        self.calls = calls
        self._state = state
        head = [address_of(state.words), state.threads, len(calls), 0, 0]
        self._table = np.array([*head, *(word for each in calls for word in _words(each))], np.int64)
        self._address = address_of(self._table)
        # The status of the last call of the last run, 0 unless it ended with an error.
        self.status: int = 0

    @property
    def ended_by(self) -> Call | None:
        """The call by which this thread ended the last run before its end."""
        return self.calls[self._table[_DONE]] if self._table[_FAILED] else None

    @property
    def entry(self) -> tuple[Callable[[int], int], int]:
        """The machine code, and the address of the table that it takes, for a caller that reads the state itself."""
        return _entry(), self._address

    def run(self) -> None:
        """Do the calls."""
        self.status = _entry()(self._address)


def _words(call: Call | None) -> tuple[int, int, int, int]:
    if call is None:
        return 0, 0, 0, 0
    entry, table, result = call.function.addresses()
    return (entry, table, 0, 0) if call.least is None else (entry, table, result, call.least)


@cache
def _entry() -> Callable[[int], int]:
    """Return the function that does the calls of a table, compiled or from the cache."""
    text = _text()
    name, store = f"wyrm_{code_cache.key(text)}.machine", code_cache.store()
    code = store.read(name)
    if code is None:
        code = machine_code(text)
        store.write(name, code)
    return entry_of(code)


# --- the text ---------------------------------------------------------------------------------------------------------


def _text() -> str:
    to = Writer()

    def word(position: int) -> str:
        return to.new(f"load i64, ptr {to.address('i64', '%table', position)}")

    state = to.new(f"inttoptr i64 {word(0)} to ptr")
    threads, count = word(1), word(2)
    stop, arrived, turn = (to.address("i64", state, place) for place in (_STOP, _ARRIVED, _TURN))
    done, failed = (to.address("i64", "%table", place) for place in (_DONE, _FAILED))
    to.do(f"store i64 0, ptr {done}")
    to.do(f"store i64 0, ptr {failed}")

    def one(index: str) -> None:
        to.branch(to.compare("ne", to.read_shared(stop), 0), lambda: to.leave("ret i32 0"))
        place = to.add(to.multiply(index, _CALL), _HEAD)
        call = to.address("i64", "%table", place)
        entry, table, result, least = (
            to.new(f"load i64, ptr {to.address('i64', call, position)}") for position in range(_CALL)
        )

        def run() -> None:
            function, given = (to.new(f"inttoptr i64 {each} to ptr") for each in (entry, table))
            status = to.new(f"call i32 {function}(ptr {given})")

            def end(status: str) -> None:
                to.do(f"store i64 1, ptr {failed}")
                to.write_shared(stop, 1)
                to.leave(f"ret i32 {status}")

            to.branch(to.new(f"icmp ne i32 {status}, 0"), lambda: end(status))

            def check() -> None:
                found = to.new(f"load i64, ptr {to.new(f'inttoptr i64 {result} to ptr')}")
                to.branch(to.compare("slt", found, least), lambda: end("0"))

            to.branch(to.compare("ne", result, 0), check)

        to.branch(to.compare("ne", entry, 0), run, lambda: _wait(to, stop, arrived, turn, threads))
        to.do(f"store i64 {to.add(index, 1)}, ptr {done}")

    to.loop(count, 1, one)
    declared = ["declare i32 @sched_yield()"] if BARRIERS else []
    return "\n".join([*declared, to.function(f"i32 @{ENTRY}(ptr %table) nounwind", "ret i32 0")])


def _wait(to: Writer, stop: str, arrived: str, turn: str, threads: str) -> None:
    """Wait until all threads have come here, or until one tells the others to stop."""
    before = to.read_shared(turn)
    others = to.new(f"atomicrmw add ptr {arrived}, i64 1 seq_cst")

    def open() -> None:
        to.write_shared(arrived, 0)
        to.write_shared(turn, to.add(before, 1))

    def wait() -> None:
        def look(tries: str) -> tuple[str, list[str]]:
            opened = to.compare("ne", to.read_shared(turn), before)
            ended = to.one_of(opened, to.compare("ne", to.read_shared(stop), 0))
            if BARRIERS:
                long = to.both(to.compare("sgt", tries, _SPINS), to.fails(ended))
                to.branch(long, lambda: to.do("call i32 @sched_yield()"))
            return ended, [to.add(tries, 1)]

        to.repeat(look, carried=[("i64", "0")])

    to.branch(to.compare("eq", to.add(others, 1), threads), open, wait)
