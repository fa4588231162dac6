"""The clock that instrumented programs read: nanoseconds of the system's monotonic clock.

It is the clock of `time.perf_counter_ns`, so times of native code and of Python are comparable, and it is the same for
all threads. The processor's own counter is read in half the time, but its rate and its agreement between cores depend
on the machine.
"""

from __future__ import annotations

import sys
import time
from functools import cache, cached_property

import numpy as np

from wyrm.engines.native.ir.program import LibraryCall
from wyrm.engines.native.kernels import indexing
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.statements import FunctionBody
from wyrm.engines.native.kernels.values import Num, Value, View, rebuilt, variables_of
from wyrm.errors import OptionError

# The module that stores the time at an address. A call that may write to all memory keeps loads and stores in order.
_MODULE = """
declare i32 @clock_gettime(i32, ptr)

define void @wyrm_shared(ptr %out) nounwind {{
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %second = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %second
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  store i64 %now, ptr %out
  ret void
}}
"""
_SYMBOL = "wyrm_clock"
# The number of readings from which the cost of one is measured.
_READINGS = 2000


class ClockReading(Routine):
    """A function `(times, row, column)` that stores the time in an element of a two-dimensional array."""

    def __init__(self) -> None:
        super().__init__("read_clock", inlined=True)

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return ["times", "row", "column"]

    @cached_property
    def identity(self) -> str:
        """A text that identifies the compiled code."""
        return f"the time at {_SYMBOL}"

    @cached_property
    def may_overflow(self) -> frozenset[str]:
        """The variables that may overflow an int64: none."""
        return frozenset()

    def write(self, body: FunctionBody) -> bool:
        """Compile the body of the function; return whether its last statement returns."""
        times, row, column = (self._value(body, name) for name in self.parameters)
        assert isinstance(times, View) and isinstance(row, Num) and isinstance(column, Num)
        place = indexing.part(body.builder, times, [row, column])
        body.builder.add(LibraryCall(_SYMBOL.removeprefix("wyrm_"), (place.pointer,)))
        return False

    @staticmethod
    def _value(body: FunctionBody, name: str) -> Value:
        kind = body.kinds[name]
        return rebuilt(kind, variables_of(name, kind))


@cache
def provide_clock() -> None:
    """Make the clock available to machine code; raise `OptionError` on a system without `clock_gettime`."""
    from wyrm.engines.native.llvm.library import provide
    from wyrm.engines.native.llvm.optimize import machine_code

    clock = getattr(time, "CLOCK_UPTIME_RAW" if sys.platform == "darwin" else "CLOCK_MONOTONIC", None)
    if clock is None:
        raise OptionError("profile needs the function clock_gettime, which this system lacks; use wy.time_ops")
    provide(_SYMBOL, machine_code(_MODULE.format(clock=int(clock))))


@cache
def cost_of_reading() -> float:
    """Return the nanoseconds that one reading adds to what lies between it and the one before."""
    from wyrm.engines.native.llvm.library import entry_of
    from wyrm.engines.native.llvm.optimize import machine_code

    provide_clock()
    run = entry_of(machine_code(_LOOP))
    times = np.zeros(_READINGS, np.int64)
    costs = []
    for _ in range(5):  # the least, because the system may interrupt one, and the first brings the code into the cache
        run(times.ctypes.data)
        costs.append(float(times[-1] - times[0]) / (_READINGS - 1))
    return min(costs)


_LOOP = f"""
declare void @{_SYMBOL}(ptr)

define i32 @wyrm_entry(ptr %times) {{
start:
  br label %body
body:
  %i = phi i64 [ 0, %start ], [ %next, %body ]
  %place = getelementptr i64, ptr %times, i64 %i
  call void @{_SYMBOL}(ptr %place)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {_READINGS}
  br i1 %more, label %body, label %end
end:
  ret i32 0
}}
"""
