"""What XLA's operations took, from a trace of `jax.profiler`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class OpTime(NamedTuple):
    """An operation that a device ran; times are nanoseconds since the trace began."""

    module: str
    name: str
    device: int
    start: float
    duration: float


def traced_ops(run: Callable[[], object]) -> list[OpTime]:
    """Call a function; return the operations of XLA that this process's devices ran, in the order of their starts."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            run()
        (path,) = Path(folder).rglob("*.xplane.pb")
        return sorted(_ops(jax.profiler.ProfileData.from_file(str(path))), key=lambda op: op.start)


def _ops(data: Any) -> Iterator[OpTime]:
    for plane in data.planes:
        _, _, number = plane.name.rpartition(":")
        of_device = int(number) if plane.name.startswith("/device:") and number.isdigit() else 0
        for line in plane.lines:
            for event in line.events:
                if "::" in event.name or event.name.startswith("end: "):  # of the runtime; reading facts takes time
                    continue
                facts = dict(event.stats)
                if "hlo_op" in facts:
                    device = int(facts.get("device_ordinal", of_device))
                    yield OpTime(
                        str(facts["hlo_module"]), str(facts["hlo_op"]), device, event.start_ns, event.duration_ns
                    )


def busy(ops: Sequence[OpTime]) -> float:
    """Return the nanoseconds in which at least one of these operations, in the order of their starts, runs.

    >>> from wyrm.profile.xla_trace import OpTime, busy
    >>> busy([OpTime("jit_f", "dot.1", 0, 0.0, 5.0), OpTime("jit_f", "add.2", 0, 3.0, 4.0)])
    7.0
    """
    total, until = 0.0, float("-inf")
    for op in ops:
        stop = op.start + op.duration
        total += max(0.0, stop - max(until, op.start))
        until = max(until, stop)
    return total
