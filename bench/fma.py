"""The most fused multiply-adds a second: registers that are added to, written as LLVM, on one core and on both.

`python -m bench.fma` prints them.
"""

from __future__ import annotations

import ctypes
import threading
import time
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from bench.models import THREADS
from wyrm.engines.native.products.target import host

# As many sums as hide the latency of an instruction on any processor: two units, four to six cycles each.
_SUMS, _SECONDS = 12, 0.1
# So many that the start of a thread, some 0.1 ms, is nothing beside them, and of one thread so many that none disturbs.
_TURNS = 1_000_000


def text(bits: int, double: bool) -> str:
    """Return a function that adds so many times to each of the sums, and stores their sum."""
    number, width = ("double", bits // 64) if double else ("float", bits // 32)
    vector, function = f"<{width} x {number}>", f"@llvm.fma.v{width}f{64 if double else 32}"
    starts = [f"%s{i} = phi {vector} [zeroinitializer, %entry], [%t{i}, %loop]" for i in range(_SUMS)]
    sums = [f"%t{i} = call {vector} {function}({vector} %x, {vector} %x, {vector} %s{i})" for i in range(_SUMS)]
    adds = [f"%a{i + 1} = fadd {vector} {f'%a{i}' if i else '%t0'}, %t{i + 1}" for i in range(_SUMS - 1)]
    lines = [
        f"declare {vector} {function}({vector}, {vector}, {vector})",
        "define void @turns(ptr %place, i64 %count) {",
        f"entry:\n%x = load {vector}, ptr %place, align 4\nbr label %loop",
        "loop:\n%i = phi i64 [0, %entry], [%next, %loop]", *starts, *sums, "%next = add i64 %i, 1",
        "%more = icmp slt i64 %next, %count\nbr i1 %more, label %loop, label %end",
        "end:", *adds, f"store {vector} %a{_SUMS - 1}, ptr %place, align 4\nret void\n}}",
    ]  # fmt: skip
    return "\n".join(lines)


@cache
def _compiled(double: bool) -> Any:
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text(host().bits, double)), machine)
    engine.finalize_object()
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address("turns"))
    function.engine = engine  # keeps the code
    return function


@cache
def peak(threads: int = 1, double: bool = False) -> float:
    """Return the FLOP/s that so many threads reach, two for each multiply-add."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    function, width = _compiled(double), host().bits // (64 if double else 32)
    places = [np.zeros(64) for _ in range(threads)]

    def turn(place: Any) -> None:
        function(place.ctypes.data, _TURNS)

    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        rest = [threading.Thread(target=turn, args=(place,)) for place in places[1:]]
        for thread in rest:
            thread.start()
        turn(places[0])
        for thread in rest:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return 2.0 * _SUMS * width * _TURNS * threads / best


def main() -> None:
    """Print the peaks of both types."""
    for double in (False, True):
        rates = ", ".join(f"{peak(threads, double) / 1e9:.0f} with {threads}" for threads in (1, THREADS))
        print(f"float{64 if double else 32}: {rates} GFLOP/s")


if __name__ == "__main__":
    main()
