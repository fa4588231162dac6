"""Products of matrices in float32, one call each, vs OpenBLAS, PyTorch and the peak of multiply-adds; their accuracy.

PyTorch's wheels have MKL on Intel and AMD. The peak is that of `bench.fma`, measured in the same process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bench.harness import Case, Contender, Measurement, timed
from bench.models import THREADS
from bench.workers import in_worker
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.llvm.calling import BoundFunction
from wyrm.engines.native.llvm.library import CompiledFunction
from wyrm.engines.native.products import pool
from wyrm.ops.products.product import multiply_into
from wyrm.support.memory import aligned

# Rows, the inner axis, columns: what small and medium models multiply.
SIZES = (
    (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (32, 128, 512), (4, 768, 3072), (1, 768, 3072),
    (2048, 64, 256), (2048, 256, 64), (256, 768, 3072), (256, 3072, 768),
)  # fmt: skip

Sizes = tuple[int, int, int]
# Returns a call that multiplies the first two arrays into the third one.
Maker = Callable[[Any, Any, Any], Callable[[], object]]


def _wyrm(a: Any, b: Any, c: Any) -> Callable[[], object]:
    """Return the product as programs call it: the arguments are bound once."""
    return BoundFunction(CompiledFunction(KernelFunction(_multiply, name="product", distinct=True)), (a, b, c), (), ())


def _multiply(a: Any, b: Any, c: Any) -> None:
    """`c = a @ b`."""
    multiply_into(a, b, c, 0)


def _numpy(a: Any, b: Any, c: Any) -> Callable[[], object]:
    return partial(np.matmul, a, b, out=c)


def _torch(a: Any, b: Any, c: Any) -> Callable[[], object]:
    import torch

    return partial(torch.mm, *map(torch.from_numpy, (a, b)), out=torch.from_numpy(c))


MAKERS: dict[str, Maker] = {"wyrm": _wyrm, "numpy (OpenBLAS)": _numpy, "torch": _torch}


def _limit(name: str, threads: int) -> None:
    """Let a contender use this many threads."""
    if name == "wyrm":
        pool.limit(threads)
    elif name == "torch":
        import torch

        torch.set_num_threads(threads)
    else:
        threadpool_limits(threads, "blas")


def _filled(shape: tuple[int, int], random: np.random.Generator) -> NDArray[np.float32]:
    """Return an array that starts at a cache line, as those of every contender."""
    array = aligned(shape, np.dtype(np.float32))
    array[...] = random.standard_normal(shape, np.float32)
    return array


def _arrays(sizes: Sizes) -> list[NDArray[np.float32]]:
    rows, inner, columns = sizes
    random = np.random.default_rng(0)
    return [_filled(shape, random) for shape in ((rows, inner), (inner, columns), (rows, columns))]


def work(name: str, sizes: Sizes, threads: int) -> Callable[[], object]:
    """Return a call of a product."""
    _limit(name, threads)
    return MAKERS[name](*_arrays(sizes))


def _speed(name: str, sizes: Sizes, threads: int) -> Contender:
    """Return a contender; the threads of several libraries in one process would disturb each other."""
    if threads == 1:
        return lambda: timed(work(name, sizes, threads))
    call = f"work({name!r}, {sizes}, {threads})"
    return in_worker(f"from bench.products import work; from bench.workers import serve; serve(lambda: {call})")


def _peak(sizes: Sizes, threads: int) -> Callable[[], Measurement]:
    from bench.fma import peak

    count = 2.0 * np.prod(sizes)

    def once() -> Measurement:
        peak.cache_clear()
        return Measurement(count / peak(threads))

    return once


def _operands(kind: str, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    if kind == "long":
        return _filled((4, 300_000), random), _filled((300_000, 8), random)
    a, b = _filled((64, 4096), random), _filled((4096, 64), random)
    if kind == "cancelling":
        half = b.shape[0] // 2  # the second half of a sum is the first with the other sign, but for a thousandth
        a[:, half:], b[half:] = a[:, :half] * np.float32(-1.001), b[:half]
    return a, b


def _accuracy(name: str, kind: str) -> Callable[[], Measurement]:
    _limit(name, 1)
    seeds = itertools.count()

    def once() -> Measurement:
        a, b = _operands(kind, next(seeds))
        found = np.zeros((a.shape[0], b.shape[1]), np.float32)
        MAKERS[name](a, b, found)()
        left, right = a.astype(np.float64), b.astype(np.float64)
        error = np.abs(found - left @ right) / (np.abs(left) @ np.abs(right))
        return Measurement(float(np.sqrt(np.mean(error**2))))

    return once


def cases() -> list[Case]:
    """Each size with one thread and with two, then errors relative to the sums of absolute terms."""
    found = []
    for threads in (1, THREADS):
        for sizes in SIZES:
            contenders: dict[str, Contender] = {name: _speed(name, sizes, threads) for name in MAKERS}
            small = np.prod(sizes) <= 128**3
            floors = dict.fromkeys(("numpy (OpenBLAS)", "torch"), 1.1 if small else 0.95)
            if min(sizes) >= 256:
                floors["peak of multiply-adds"] = 0.9
            found.append(
                Case(
                    "products", f"{' x '.join(map(str, sizes))}, {threads} thread{'s' if threads > 1 else ''}",
                    contenders | {"peak of multiply-adds": partial(_peak, sizes, threads)},
                    floors=floors, other_work=("peak of multiply-adds",),
                )
            )  # fmt: skip
    for kind in ("random", "long", "cancelling"):
        errors: dict[str, Contender] = {name: partial(_accuracy, name, kind) for name in MAKERS}
        floors = {"numpy (OpenBLAS)": 1.0}
        found.append(Case("products", f"error of {kind} sums", errors, floors=floors, unit="relative error"))
    return found
