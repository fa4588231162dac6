"""`Peaks`: the rates that the machine can reach, measured once by small runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.llvm.lapack import limited
from wyrm.engines.native.products.pool import processors
from wyrm.errors import OptionError
from wyrm.graph.typing import FloatArray
from wyrm.ops.products.product import multiply_into
from wyrm.profile.work import Work
from wyrm.support.memory import aligned

# The bytes of the three arrays of a triad: two sizes within the caches of common processors, and one far beyond.
_SIZES = (3 * 2**16, 3 * 2**20, 3 * 2**25)
# The rows, the inner axis and the columns of the timed products: operands that fill a core's cache, and small ones.
_PRODUCTS = ((512, 512, 512), (512, 64, 256))
# Seconds for each measurement.
_SECONDS = 0.1


@dataclass(frozen=True)
class Peaks:
    """The most that a machine does in a second, with one thread and with all of them.

    `float32` and `float64` are pairs of FLOP/s, and `bandwidth` a pair of bytes/s for arrays in main memory. `cached`
    has `(bytes, one thread, all threads)` for arrays that fit in a cache, smallest first. `threads` is the number of
    all threads.
    """

    float32: tuple[float, float]
    float64: tuple[float, float]
    bandwidth: tuple[float, float]
    cached: tuple[tuple[float, float, float], ...] = ()
    threads: int = 1

    def __post_init__(self) -> None:
        rates = [*self.float32, *self.float64, *self.bandwidth, *(rate for each in self.cached for rate in each)]
        if not all(np.isfinite(rate) and rate > 0 for rate in rates) or self.threads < 1:
            raise OptionError(f"peaks are positive numbers, and threads at least 1: {self}")

    def flops(self, work: Work, threads: int = 1) -> float:
        """Return the FLOP/s that a call can reach; `threads` is the number that share products and large loops."""
        single = self.float64 if work.bits == 64 else self.float32
        return _of_threads(single, threads if work.shared else 1, self.threads)

    def bytes(self, work: Work, threads: int = 1) -> float:
        """Return the bytes/s that a call can reach on arrays of this size; `threads` as in `flops`."""
        count = threads if work.shared else 1
        for size, *rates in self.cached:
            if work.bytes <= size:
                return _of_threads(rates, count, self.threads)
        return _of_threads(self.bandwidth, count, self.threads)

    def __str__(self) -> str:
        caches = "".join(f", {rate / 1e9:.0f} within {size / 2**20:.1f} MiB" for size, rate, _ in self.cached)
        return (
            f"peaks measured on this machine: {self.float32[0] / 1e9:.0f} GFLOP/s in float32 and "
            f"{self.float64[0] / 1e9:.0f} in float64 with one thread, {self.float32[1] / 1e9:.0f} and "
            f"{self.float64[1] / 1e9:.0f} with {self.threads}; {self.bandwidth[0] / 1e9:.1f} GB/s from memory with one "
            f"thread, {self.bandwidth[1] / 1e9:.1f} with {self.threads}{caches}"
        )


def _of_threads(rates: Sequence[float], threads: int, all_threads: int) -> float:
    if threads <= 1 or all_threads <= 1:
        return rates[0]
    return rates[0] + (rates[1] - rates[0]) * min(1.0, (threads - 1) / (all_threads - 1))


@cache
def measured_peaks() -> Peaks:
    """Return the peaks of this machine, measured by matrix products and triads in under two seconds, once a process.

    A triad is `a[i] = b[i] + s * c[i]`. Other work on the machine lowers them.
    """
    count = processors()
    flops = [[_product_rate(np.dtype(dtype), threads) for threads in (1, count)] for dtype in ("float32", "float64")]
    bands = [[_triad(size, threads) for threads in (1, count)] for size in _SIZES]
    # A cache is no slower than the next larger one or memory, and all threads together are no slower than one.
    for position in range(len(bands) - 2, -1, -1):
        bands[position] = [max(pair) for pair in zip(bands[position], bands[position + 1], strict=True)]
    (one, every), caches = bands[-1], zip(_SIZES[:-1], bands[:-1], strict=True)
    return Peaks(
        (flops[0][0], max(flops[0])),
        (flops[1][0], max(flops[1])),
        (one, max(one, every)),
        tuple((float(size), rates[0], max(rates)) for size, rates in caches),
        count,
    )


def _fastest(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest run."""
    run()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def _product_rate(dtype: np.dtype, threads: int) -> float:
    """Return the FLOP/s of a matrix product as programs compute it."""
    from wyrm.engines.native.llvm.library import CompiledFunction

    multiply, rates = CompiledFunction(KernelFunction(_multiply, name="peak_of_products", distinct=True)), []
    with limited(threads, libraries=False):
        for rows, inner, columns in _PRODUCTS:
            shapes = (rows, inner), (inner, columns), (rows, columns)
            arrays = [aligned(shape, dtype, 1.0) for shape in shapes]
            rates.append(2.0 * rows * inner * columns / _fastest(partial(multiply, *arrays)))
    return max(rates)


def _triad(size: int, threads: int) -> float:
    """Return the bytes/s of triads over arrays of `size` bytes in all, shared among threads."""
    from wyrm.engines.native.llvm.library import CompiledFunction

    length, repeats = size // 3 // 4 // threads, max(1, 2**22 // size)
    triad = CompiledFunction(KernelFunction(_triads, name="peak_of_triads", distinct=True, fused=True))
    arrays = [[aligned((length,), np.dtype(np.float32)) for _ in range(3)] for _ in range(threads)]
    for each in arrays:
        triad(*each, 1)

    def run() -> None:
        rest = [threading.Thread(target=triad, args=(*each, repeats)) for each in arrays[1:]]
        for thread in rest:
            thread.start()
        triad(*arrays[0], repeats)
        for thread in rest:
            thread.join()

    return 3.0 * 4 * length * threads * repeats / _fastest(run)


def _triads(a: FloatArray, b: FloatArray, c: FloatArray, repeats: int) -> None:
    """`a = b + s * c`, several times; each time depends on the last one."""
    for _ in range(repeats):
        for i in range(a.shape[0]):
            a[i] = b[i] + 0.5 * c[i]


def _multiply(a: FloatArray, b: FloatArray, c: FloatArray) -> None:
    """`c = a @ b`."""
    multiply_into(a, b, c, 0)
