"""The methods of `Program` that show what it is made of: nodes, source, stages of compilation, memory and times."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from wyrm.engines.engine import Engine, ProgramPlan
from wyrm.engines.graph import ProgramGraph
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.engines.tables import FeedT
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.support.files import FilePath
from wyrm.support.foreign_names import explains_keywords

if TYPE_CHECKING:
    from wyrm.engines.epochs import ThreadMode
    from wyrm.exporting.exported import Exported
    from wyrm.profile.peaks import Peaks
    from wyrm.profile.result import Profile


class Inspected:
    """The base class of `Program` with the methods that show it."""

    _engine_name: str
    _engine: Engine
    _outputs: Sequence[BaseNode]
    _lock: threading.RLock

    @property
    def engine(self) -> str:
        """The name of the engine that runs the program, such as "native" or "jax"."""
        return self._engine_name

    @property
    def sharding(self) -> object:
        """A table to print of how parameters are divided among the devices of a mesh; None without a mesh."""
        return self._engine.sharding

    @property
    def source(self) -> str:
        """The generated source: the kernels, and `run`, which loops over the data."""
        return self._engine.source

    @property
    def llvm(self) -> str:
        """The LLVM modules before optimization, one for each part that is compiled separately."""
        with self._lock:
            return self._engine.llvm

    @property
    def assembly(self) -> str:
        """The machine code for this processor as text; generating it may take a second."""
        with self._lock:
            return self._engine.assembly

    def stages(self) -> dict[str, str]:
        """Return the program after each stage of compilation as text, by the stage's name and in order.

        "graph" lists the nodes of the outputs with the lines of code that made them; "differentiate" adds the
        gradients; "decompose" replaces composite nodes by simpler ones; "deduplicate" merges equal nodes. "fuse" shows
        the fused loops, "materialize" the stored arrays. "write" is `source`; "plan memory" gives the arrays' offsets.
        "loop program" has types, pointers and strides; "emit" is `llvm`.

        >>> x = wy.Input(dims=(3,), name="x")
        >>> stages = wy.compile(x.tanh() + x.tanh()).stages()
        >>> [text.count("tanh(x)") for text in (stages["graph"], stages["deduplicate"])]
        [2, 1]
        """
        with self._lock:
            return self._engine.stages()

    @property
    def inputs(self) -> tuple[BaseNode, ...]:
        """The inputs that take data, in order of first use."""
        return tuple(self._engine.graph.inputs)

    @property
    def graph(self) -> ProgramGraph:
        """The graph after each stage of compilation; for the JAX engine, before JAX compiles it."""
        return self._engine.graph

    @property
    def sizes(self) -> Mapping[type[Dim], int]:
        """The sizes of named axes in the last run; empty before the first one, and for the JAX engine."""
        return self._engine.sizes

    @property
    def outputs(self) -> tuple[BaseNode, ...]:
        """The nodes whose values a call returns, metrics last."""
        return tuple(self._outputs)

    @property
    def optimizer(self) -> OptimizerInterface | None:
        """The optimizer, None if the program only computes outputs."""
        return self._engine.graph.optimizer

    @property
    def trained(self) -> tuple[Parameter | Buffer, ...]:
        """The parameters and buffers that an epoch changes."""
        return tuple(self._engine.graph.trained)

    @property
    def plan(self) -> ProgramPlan:
        """The calls of a step, the buffers and their bytes, and the nodes that cost nothing.

        The bytes cover everything run so far, for all threads and batch sizes, without the parameters and the
        optimizer's state. Before the first run they are 0 if input sizes are unknown.
        """
        return self._engine.plan()

    @overload
    def profile(
        self,
        columns: None = None,
        *,
        method: Literal["epoch", "call", "backward"] | None = None,
        steps: int | None = None,
        memory: bool = False,
        peaks: Peaks | None = None,
    ) -> Profile: ...
    @overload
    def profile(
        self,
        columns: FeedT,
        *,
        method: Literal["epoch", "call", "backward"] | None = None,
        steps: int | None = None,
        batch_size: int = 1,
        threads: int = 1,
        mode: ThreadMode = "hogwild",
        accumulate: int = 1,
        memory: bool = False,
        peaks: Peaks | None = None,
    ) -> Profile: ...
    @explains_keywords
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
        """Measure where the time of a step goes: each loop, product and other kernel, and the waits.

        A copy of the program runs some steps of `epoch`, or calls of the program ("call", the default without an
        optimizer) or of `backward`, with a clock between the calls of its native code. This program, its parameters
        and its optimizer stay as they are. `columns`, `batch_size`, `threads`, `mode` and `accumulate` are those of the
        method. By default the `steps` (batches, or calls) take about a second; too few rows are used again.

        The result prints as a table, with the bytes and FLOPs of each part beside what the machine can do. These
        `peaks` are measured once in a process, or given as a `wy.profile.Peaks`. `memory` adds the arrays of a step.
        See `wy.profile` for the page and the trace.

        Raise what `epoch` raises for the data, and `OptionError` for options that do not fit the program, and for the
        engine "jax": `jax.profiler.trace` measures what XLA compiles, by the names of nodes.

        >>> class Batch(wy.Dim): ...
        >>> x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
        >>> program = wy.compile((slope * x).square().mean(), wy.optim.SGD([slope], 0.1))
        >>> profile = program.profile({x: np.ones(64)}, batch_size=32, steps=4)
        >>> profile.steps, [stage.kind for stage in profile.stages][:2], float(slope)
        (4, ['load', 'loop'], 1.0)
        """
        program: Any = self
        if type(self._engine).profile is not Engine.profile:  # which raises an error, so nothing is copied
            with self._lock:
                program = copy.copy(program) if self.optimizer is None else copy.deepcopy(program)
        profile: Profile = program._engine.profile(
            columns, method=method, steps=steps, batch_size=batch_size, threads=threads, mode=mode,
            accumulate=accumulate, memory=memory, peaks=peaks,
        )  # fmt: skip
        return profile

    @explains_keywords
    def export(
        self,
        folder: FilePath,
        *,
        target: str = "c",
        cpu: str | None = None,
        features: str | None = None,
        blas: Literal["cblas"] | None = None,
        name: str = "model",
        batch_sizes: int | Sequence[int] = 32,
        sizes: Mapping[type[Dim], int] | None = None,
        embed: bool | Literal["float32", "float16", "int8"] = False,
        ram: int | None = None,
        flash: int | None = None,
        columns: Mapping[Any, Any] | None = None,
    ) -> Exported:
        """Write the program as code that needs no Python; see `wyrm.export`, which takes several programs.

        >>> import tempfile
        >>> x = wy.Input(dims=(3,), name="x")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = wy.compile(x.tanh() + x).export(folder, name="smooth")
        ...     sorted(path.name for path in exported.files)
        ['example.c', 'smooth.h', 'smooth.o']
        """
        from wyrm.exporting.exported import export

        program: Any = self
        role = "predict" if program.optimizer is None else "train"
        options: dict[str, Any] = {role: program}
        return export(
            folder, **options, target=target, cpu=cpu, features=features, blas=blas, name=name,
            batch_sizes=batch_sizes, sizes=sizes, embed=embed, columns=columns, ram=ram, flash=flash,
        )  # fmt: skip
