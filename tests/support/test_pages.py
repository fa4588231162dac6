"""Memory whose pages are there before they are written, and stays as it is."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

import wyrm as wy
from wyrm.support import pages
from wyrm.support.memory import aligned, aligned_bytes

# What `linux/mman.h` calls them.
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_POPULATE_WRITE = 14, 15, 23

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="madvise is a function of Linux")


def _faults() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@needs_linux
@pytest.mark.parametrize("megabytes", [2, 100])
def test_pages_are_there_before_they_are_written(megabytes: int) -> None:
    array = aligned_bytes(megabytes * 2**20)
    before = _faults()
    array[:] = 1
    assert _faults() - before < megabytes * 2**20 // 4096 // 20


@needs_linux
def test_zeros_take_no_memory_until_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[np.ndarray] = []
    monkeypatch.setattr(pages, "provide", asked.extend)
    zeros = aligned((2**22,), np.dtype(np.float32))
    assert not asked and not zeros.any()
    assert aligned((2**22,), np.dtype(np.float32), 1.5).all() and len(asked) == 1


def test_the_first_step_has_the_pages_of_all_that_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[np.ndarray] = []
    monkeypatch.setattr("wyrm.engines.native.stages.memory.provide_pages", lambda *arrays: asked.extend(arrays))
    rows, weights = wy.Parameter(np.zeros((9, 4))), wy.Parameter(np.zeros((4, 4)))
    index = wy.IndexInput(name="index")
    loss = (rows[index] @ weights).square().sum()
    optimizer = wy.optim.Adam(loss.parameters())
    program = wy.compile(loss, optimizer)
    for _ in range(2):
        program({index: 3})
    state = list(optimizer.state_of(weights).values())
    assert len(asked) == 3 and asked[0].dtype == np.uint8 and 0 < asked[0].nbytes <= program.plan.peak_bytes
    assert all(np.shares_memory(*pair) for pair in zip(asked[1:], state, strict=True))


@needs_linux
def test_what_pages_hold_stays() -> None:
    array = np.random.default_rng(0).integers(0, 256, 2**24 + 77, np.uint8)
    copy = array.copy()
    pages.provide([array[5:], array[:0]])
    assert np.array_equal(array, copy)


class System:
    """A system that takes a time for the pages of each kind, by a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]) -> None:
        self.seconds, self.clock, self.kind = seconds, 0.0, 0
        self.provided: list[tuple[int, int, int]] = []
        self.refused = 0
        monkeypatch.setattr("time.perf_counter", lambda: self.clock)

    def advise(self, address: int, size: int, advice: int) -> int:
        if advice != MADV_POPULATE_WRITE:
            self.kind = advice
        elif self.kind not in self.seconds:
            self.refused += 1
            return -1
        else:
            self.clock += self.seconds[self.kind]
            self.provided.append((address, size, self.kind))
        return 0

    @property
    def kinds(self) -> list[int]:
        return [kind for _, _, kind in self.provided]


def test_the_kind_of_pages_that_comes_faster_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, {MADV_HUGEPAGE: 1.0, MADV_NOHUGEPAGE: 2.0})
    found, size = pages.Pages(system.advise), 10 * 2**23 + 4096
    found.provide(pages.chunks_of(4096, size))
    assert system.kinds == [MADV_HUGEPAGE, MADV_NOHUGEPAGE, *[MADV_HUGEPAGE] * 9]
    assert sum(length for _, length, _ in system.provided) == size
    assert [start for start, _, _ in system.provided] == [4096 + part * 2**23 for part in range(11)]

    # Huge pages run out: small ones are faster from then on.
    system.seconds[MADV_HUGEPAGE] = 20.0
    system.provided.clear()
    found.provide(pages.chunks_of(0, 4 * 2**23))
    assert system.kinds == [MADV_HUGEPAGE, *[MADV_NOHUGEPAGE] * 3]


def test_a_system_without_memory_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, {})
    pages.Pages(system.advise).provide(pages.chunks_of(0, 2**25))
    assert not system.provided and system.refused == 1


def test_chunks_cover_the_whole_pages_alone() -> None:
    address, size, page = 10 * 2**20 + 77, 2**27 + 12345, pages._PAGE
    chunks = list(pages.chunks_of(address, size))
    assert chunks[0][0] - address in range(page)
    assert address + size - sum(chunks[-1]) in range(page)
    assert all(sum(chunk) == following[0] for chunk, following in pairwise(chunks))
    assert all(start % page == 0 and length % page == 0 for start, length in chunks)
    assert not list(pages.chunks_of(address, page // 2))
