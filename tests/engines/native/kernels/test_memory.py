"""Memory beside arrays: words that threads share, addresses, and calls of functions at addresses."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled
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
    table,
    words_of,
)
from wyrm.engines.native.kernels.values import NotCompiled


def access(words: np.ndarray, seen: np.ndarray) -> None:
    """Access words in each way; write what each access returned."""
    seen[0] = atomic_load(words, 0)
    atomic_store(words, 0, 20)
    seen[1] = atomic_add(words, 0, -5)
    seen[2] = compare_exchange(words, 0, 20, 40)
    seen[3] = compare_exchange(words, 0, 15, 50)
    pause()
    seen[4] = atomic_load(words, 0)


def test_what_accesses_to_a_word_return() -> None:
    words, seen = np.array([10, 1]), np.zeros(5, np.int64)
    compiled(access, words, seen)(words, seen)
    assert seen.tolist() == [10, 20, 0, 1, 50]
    assert words.tolist() == [50, 1]


def test_words_may_lie_apart() -> None:
    words, seen = np.arange(6), np.zeros(5, np.int64)
    compiled(access, words[1::3], seen)(words[1::3], seen)
    assert seen[0] == 1
    assert words.tolist() == [0, 50, 2, 3, 4, 5]


def add(words: np.ndarray, times: int) -> None:
    """Add 1 to a word, and by turns of the other one to a third."""
    for _ in range(times):
        atomic_add(words, 0, 1)
        while not compare_exchange(words, 1, 0, 1):
            pause()
        words[2] += 1
        atomic_store(words, 1, 0)


def test_no_access_of_a_thread_is_lost() -> None:
    words = np.zeros(3, np.int64)
    function = compiled(add, words, 1)
    threads = [threading.Thread(target=function, args=(words, 20_000)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert words.tolist() == [80_000, 0, 80_000]


def swapped(words: np.ndarray) -> None:
    """Exchange words by way of a table."""
    for i in range(0, words.shape[0], 2):
        pair = table(words[i], words[i + 1])
        words[i], words[i + 1] = pair[1], pair[0]


def test_a_table_is_new_in_each_turn() -> None:
    words = np.arange(6)
    compiled(swapped, words)(words)
    assert words.tolist() == [1, 0, 3, 2, 5, 4]


@KernelFunction
def third(words: Any) -> None:
    """Write to a word, and end with a status, if the first word says so."""
    found = words_of(address(words), 3)
    found[2] = found[0] + 1
    end_if(found[0])


def at_address(words: np.ndarray, times: int) -> int:
    """Call a function at its address; return the sum of its statuses."""
    function, total = address_of(third, words), 0
    for i in range(times):
        words[0] = i
        total += call(function, words, words.shape[0])
    return total


def test_a_function_is_called_at_its_address() -> None:
    words = np.zeros(3, np.int64)
    assert compiled(at_address, words, 1)(words, 4) == 0 + 1 + 2 + 3
    assert words.tolist() == [3, 0, 4]


def through(words: np.ndarray, function: int) -> int:
    """Return the status of a function at an address, called with numbers and an array."""
    return call(function, words, 5, np.uint8(7))


def test_a_function_of_c_is_called_at_its_address() -> None:
    words, given = np.array([3, 4]), list[tuple[int, int]]()

    def own(place: int, first: int, second: int) -> int:
        given.append((first, second))
        return ctypes.c_int64.from_address(place).value - 4

    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint8)(own)
    place = ctypes.cast(function, ctypes.c_void_p).value or 0
    assert compiled(through, words, 0)(words, place) == -1
    assert given == [(5, 7)]


def of_floats(words: np.ndarray) -> None:
    """Access a float as a word."""
    atomic_store(words, 0, 1)


def test_only_words_are_shared() -> None:
    for words in (np.zeros(2), np.zeros(2, np.int32), np.zeros((2, 2), np.int64)):
        with pytest.raises(NotCompiled, match="an array of int64 with one axis"):
            compiled(of_floats, words)


def beyond(words: np.ndarray, i: int) -> int:
    """Read a word."""
    return atomic_load(words, i)


def test_words_are_checked_in_debug_mode() -> None:
    words = np.array([3, 4])
    function = compiled(beyond, words, 0, checked=True)
    assert function(words, 1) == 4
    for i in (2, -1):
        with pytest.raises(IndexError, match="out of bounds"):
            function(words, i)
