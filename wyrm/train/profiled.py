"""`Program.profile`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

from wyrm.engines.columns import FeedT
from wyrm.support.foreign_names import answering

if TYPE_CHECKING:
    from wyrm.engines.epochs import ThreadMode
    from wyrm.profile.peaks import Peaks
    from wyrm.profile.result import Profile


class Profiled:
    """A program that can be profiled."""

    @answering
    def profile(
        self,
        columns: FeedT | None = None,
        *,
        method: Literal["epoch", "call", "backward"] | None = None,
        steps: int | None = None,
        batch_size: int = 1,
        threads: int = 1,
        mode: ThreadMode = "hogwild",
        accumulate: int = 1,
        memory: bool = False,
        peaks: Peaks | None = None,
    ) -> Profile:
        """Measure where the time of a step goes: each loop, product and other kernel, and each thread's waits.

        A copy of the program runs some steps of `epoch`, or calls of the program ("call", the default without an
        optimizer) or of `backward`, with a clock between the calls of its native code. This program, its parameters
        and its optimizer stay as they are. `columns`, `batch_size`, `threads`, `mode` and `accumulate` are those of the
        method. By default the `steps` (batches, or calls) take about a second; too few rows are used again.

        The result prints as a table, with the bytes and FLOPs of each part beside what the machine can do. These
        `peaks` are measured once in a process, or given as a `wy.profile.Peaks`. `memory` adds the arrays of a step.
        See `wy.profile` for the page and the trace.

        Raise what `epoch` raises for the data, and `OptionError` for options that do not fit the program, or for the
        engine "jax".

        >>> class Batch(wy.Dim): ...
        >>> x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
        >>> program = wy.compile((slope * x).square().mean(), wy.optim.SGD([slope], 0.1))
        >>> profile = program.profile({x: np.ones(64)}, batch_size=32, steps=4)
        >>> profile.steps, [stage.kind for stage in profile.stages][:2], float(slope)
        (4, ['load', 'loop'], 1.0)
        """
        original: Any = self
        with original._lock:
            program = copy.copy(original) if original.optimizer is None else copy.deepcopy(original)
        profile: Profile = program._engine.profile(
            columns, method=method, steps=steps, batch_size=batch_size, threads=threads, mode=mode,
            accumulate=accumulate, memory=memory, peaks=peaks,
        )  # fmt: skip
        return profile
