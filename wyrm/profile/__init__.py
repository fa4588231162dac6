"""Where the time of a program goes: `Program.profile` returns a `Profile`.

>>> class Batch(wy.Dim): ...
>>> x, weight = wy.Input(dims=(Batch(), 8), name="x"), wy.Parameter(np.ones((8, 4), np.float32), name="weight")
>>> program = wy.compile((x @ weight).tanh().sum())
>>> profile = program.profile({x: np.ones((16, 8))}, steps=3)
>>> [(stage.kind, stage.calls, stage.flops) for stage in profile.stages if stage.kind == "product"]
[('product', 3, 1024.0)]

`print(profile)` shows a table, `Profile.page` writes a page for a browser, and `Profile.chrome_trace` a trace that
Perfetto opens. `Peaks` is what the machine can do, the *roofline*: a stage can take no less time than its FLOPs at the
peak FLOP/s, or its bytes at the peak bytes/s.

`wyrm.time_ops` measures the nodes of the reference engine instead, and `jax.profiler` what JAX compiles.
"""

from wyrm.profile.memory import MemoryOfStep, StoredArray
from wyrm.profile.peaks import Peaks, measured_peaks
from wyrm.profile.result import Event, Group, Profile
from wyrm.profile.stages import Stage

__all__ = ["Event", "Group", "MemoryOfStep", "Peaks", "Profile", "Stage", "StoredArray", "measured_peaks"]
