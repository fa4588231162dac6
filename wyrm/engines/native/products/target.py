"""What products need to know of a processor: its vector registers and its cache."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

# The cache of a core if the system does not tell its size.
_USUAL_CACHE = 512 * 1024
# A packed block of an operand takes at most this share of a core's cache; the other operand and the result need the
# rest.
_SHARE = 2


@dataclass(frozen=True)
class Target:
    """The vector registers of a processor and the cache of a core.

    `bits`: the size of a register. `tile`: the rows and the vectors a row of the block of a result that registers hold
    beside a row of the right operand and one element of the left. `masks`: stores of a part of a vector cost no more
    than whole ones. `block_bytes`: how much of the right operand is packed at a time.
    """

    bits: int
    tile: tuple[int, int]
    masks: bool
    block_bytes: int


@cache
def host() -> Target:
    """Return the target of this process."""
    features = llvm.get_host_cpu_features()
    block_bytes = max(64 * 1024, _cache_bytes() // _SHARE)
    if features.get("avx512f"):
        return Target(512, (14, 2), masks=True, block_bytes=block_bytes)
    if features.get("avx2") and features.get("fma"):
        return Target(256, (6, 2), masks=False, block_bytes=block_bytes)
    if llvm.get_process_triple().startswith(("aarch64", "arm64")):
        return Target(128, (6, 4), masks=False, block_bytes=block_bytes)
    return Target(128, (4, 2), masks=False, block_bytes=block_bytes)


def _cache_bytes() -> int:
    """Return the size of the second-level cache of a core."""
    with suppress(AttributeError, OSError, ValueError):  # not every system tells it
        found = os.sysconf("SC_LEVEL2_CACHE_SIZE")
        if found > 0:
            return found
    return _USUAL_CACHE
