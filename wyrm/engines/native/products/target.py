"""The machine that code is compiled for: its name for LLVM, and what products need to know of it."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import llvmlite.binding as llvm

from wyrm.support.notices import say

# The cache of a core if the system does not tell its size.
_USUAL_CACHE = 512 * 1024
_LINUX_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
# A packed block of an operand takes at most this share of a core's cache; the other operand and the result need the
# rest.
_SHARE = 2
_SMALLEST_BLOCK = 64 * 1024
# The largest vectors that LLVM uses in loops unless it is told otherwise.
_PREFERRED_BITS = 256
# The processors of x86-64 with AMX, on which AVX512_BF16 is slower than products of float32; and those where it is
# faster.
_TILES = ("sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids")
_PAIRS = ("cooperlake", "znver4", "znver5")
# The processors of x86-64 that have the vectors of a level, besides those that are named after it.
_WIDE = ("x86-64-v4", "skylake-avx512", "icelake", "cannonlake", *_TILES, *_PAIRS)
_AVX2 = ("x86-64-v3", "haswell", "broadwell", "skylake", "alderlake", "raptorlake", "znver1", "znver2", "znver3")
# The system call arch_prctl of x86-64, its request for a state of the processor, and that of the data of AMX.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18

PairsOption = Literal["vectors", "tiles"] | None


@dataclass(frozen=True)
class Target:
    """A processor and its system, and how products are computed on it.

    `bits`: the size of a vector register. `tile`: the rows of a block of the result, and the vectors in each of them;
    registers hold it beside a row of the right operand and one element of the left one. `masks`: stores of a part of a
    vector cost no more than whole ones. `block_bytes`: how much of the right operand is packed at a time. `triple`,
    `cpu` and `features` are LLVM's names. `allocates`: products get memory from the system and share threads; otherwise
    they use one thread, and memory that the caller passes. `cblas`: products call CBLAS, which the program is linked
    with. `has_pairs`: what multiplies pairs of bfloat16 faster than numbers of float32, vectors by AVX512_BF16 or tiles
    by AMX. `pairs`: what products of float32 multiply by, after they round their operands to bfloat16.
    """

    bits: int
    tile: tuple[int, int]
    masks: bool
    block_bytes: int
    triple: str = ""
    cpu: str = ""
    features: str = ""
    allocates: bool = True
    cblas: bool = False
    has_pairs: PairsOption = None
    pairs: PairsOption = None

    def rounding(self) -> Target:
        """Return the target whose products round their operands to bfloat16, if it has pairs."""
        return replace(self, pairs=self.has_pairs)

    @property
    def architecture(self) -> str:
        """The first part of the triple."""
        return self.triple.partition("-")[0]

    @property
    def has_libraries(self) -> bool:
        """Whether a program may call the LAPACK of this process."""
        return self.allocates

    @property
    def posix(self) -> bool:
        """Whether the system has POSIX threads."""
        return not any(name in self.triple for name in ("windows", "wasm", "none"))

    @property
    def function_attributes(self) -> str:
        """LLVM's attributes of functions. Their loops use whole vector registers, of which LLVM prefers halves."""
        return f'nounwind "prefer-vector-width"="{self.bits}"' if self.bits > _PREFERRED_BITS else "nounwind"

    def machine(self, level: int) -> Any:
        """Return a new LLVM target machine for object files."""
        _know_all()
        reloc = "pic" if self.posix or self.architecture == "x86_64" else "static"
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=level, reloc=reloc, codemodel="default"
        )


@cache
def _know_all() -> None:
    """Make LLVM know all machines."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def rounding_host() -> Target:
    """Return the target of this process whose products round their operands to bfloat16 where that is faster.

    That asks the system for the registers of AMX.
    """
    target = host().rounding()
    if target.pairs == "tiles" and not _tiles_allowed():
        say("compute_dtype='bfloat16' keeps products in float32: the system does not let this process use AMX")
        return replace(target, pairs=None)
    if target.pairs is None:
        say("compute_dtype='bfloat16' keeps products in float32, which this processor multiplies as fast")
    return target


def _tiles_allowed() -> bool:
    """Return whether this process may use the registers of AMX, for which Linux since 5.16 must be asked."""
    if sys.platform != "linux":
        return False
    given = map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST, _TILE_DATA))
    return bool(ctypes.CDLL(None).syscall(*given) == 0)


@cache
def host() -> Target:
    """Return the target of this process."""
    features = llvm.get_host_cpu_features()
    named = {
        "avx512f": bool(features.get("avx512f")),
        "avx2": bool(features.get("avx2") and features.get("fma")),
        "avx512bf16": bool(features.get("avx512bf16")),
        "amx": bool(features.get("amx-tile") and features.get("amx-bf16")),
    }
    return _with_vectors(
        llvm.get_process_triple(), llvm.get_host_cpu_name(), features.flatten(), named, _cache_bytes(), allocates=True
    )


def target_of(triple: str, cpu: str = "", features: str = "") -> Target:
    """Return a target whose code needs nothing of its system, given LLVM's names.

    Unknown processors of x86-64 count as the oldest one; `features` such as "+avx2,+fma" say more.

    >>> target_of("aarch64-linux-gnu").tile
    (6, 4)
    >>> target_of("x86_64-linux-gnu", "x86-64-v3").bits
    256
    """
    wanted = features.split(",")
    wide = cpu.startswith(_WIDE) or "+avx512f" in wanted
    named = {
        "avx512f": wide,
        "avx2": wide or cpu.startswith(_AVX2) or {"+avx2", "+fma"} <= set(wanted),
        "avx512bf16": cpu.startswith(_PAIRS) or "+avx512bf16" in wanted,
        "amx": cpu.startswith(_TILES) or {"+amx-tile", "+amx-bf16"} <= set(wanted),
    }
    return _with_vectors(triple, cpu, features, named, _USUAL_CACHE, allocates=False)


def _with_vectors(
    triple: str, cpu: str, features: str, named: dict[str, bool], cache_bytes: int, *, allocates: bool
) -> Target:
    names: dict[str, Any] = {"triple": triple, "cpu": cpu, "features": features, "allocates": allocates}
    names["block_bytes"] = max(_SMALLEST_BLOCK, cache_bytes // _SHARE)
    if named["avx512f"]:
        names["has_pairs"] = "tiles" if named["amx"] else "vectors" if named["avx512bf16"] else None
        return Target(512, (14, 2), masks=True, **names)
    if named["avx2"]:
        return Target(256, (6, 2), masks=False, **names)
    if triple.startswith(("aarch64", "arm64")):
        return Target(128, (6, 4), masks=False, **names)
    if triple.startswith("thumb") or "none" in triple:
        # Without vectors and with little memory: a block of a few numbers.
        names["block_bytes"] = 4096
        return Target(64, (2, 2), masks=False, **names)
    if triple.startswith("wasm"):
        # A broadcast is two instructions in browsers, so few rows share many vectors: 1.28 times as fast as (4, 2).
        return Target(128, (2, 4), masks=False, **names)
    return Target(128, (4, 2), masks=False, **names)


def _cache_bytes() -> int:
    """Return the size of the second-level cache of a core."""
    with suppress(OSError, ValueError):  # not every system tells it
        return int(_LINUX_CACHE.read_text(encoding="ascii").strip().removesuffix("K")) * 1024
    return _USUAL_CACHE
