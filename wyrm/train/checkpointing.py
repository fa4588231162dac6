"""`Checkpoint`, the callback of `fit` that saves a training while it goes on, and resumes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wyrm.engines.tables import is_batches
from wyrm.errors import CheckpointError, DTypeError, NotFinite, OptionError
from wyrm.graph.base import BaseNode, label
from wyrm.support.files import path_of
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import flag, number, whole
from wyrm.train.arguments import checked_counts
from wyrm.train.callbacks import Run, states_of
from wyrm.train.monitoring import Monitor

if TYPE_CHECKING:
    from pathlib import Path

    from wyrm.io.training import Checkpoints
    from wyrm.module import Module


class Checkpoint(Monitor):
    """Saves a `wy.io.Checkpoints` checkpoint every `every` epochs and after the last, and can continue from the latest.

    With `every_seconds`, it also saves within an epoch, between two steps, when so many seconds have passed since the
    last checkpoint. A checkpoint holds parameters, buffers, optimizer, the program's counters and its position in the
    epoch, the history and the states of all callbacks (see `Callback`). `parameters` is the model, or a mapping from
    names; by default the program's parameters are saved under their positions and names. The best and the last
    `keep_last` checkpoints are kept; the best has the best monitored value, see `Monitor`. With `best_only`, only
    epochs that improve are saved.

    With `resume`, training continues after the latest checkpoint in the directory, if there is one: `epochs` of `fit`
    counts from the start, and the result is that of a training without a break. An epoch that was not finished goes on
    where it was, with the same batches.

    Training waits only while arrays are copied: a thread writes the copy, into a file that is renamed when it is
    complete. A kill at any moment leaves the checkpoints before. An error of writing is raised after the next steps or
    at the end of the training. With `background=False` training waits for the disk.

    Of several processes that train together, the first one writes; all of them restore, from a folder that they share.

    Raise `OptionError` for `every` or `keep_last` below 1, `every_seconds` below 0 or with threads or `best_only`,
    `CheckpointError` for what cannot be written or does not match.

    >>> import tempfile
    >>> slope = wy.Parameter(0.0, name="slope")
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(folder, resume=True)
    ...     first = wy.train.fit(program, {"x": [1.0]}, epochs=2, callbacks=[checkpoint])
    ...     history = wy.train.fit(program, {"x": [1.0]}, epochs=3, callbacks=[checkpoint])
    >>> history.epochs, history["loss"][:2] == first["loss"]
    (3, True)
    """

    @explains_keywords
    def __init__(
        self,
        directory: str | os.PathLike[str],
        parameters: Module | Mapping[str, Any] | None = None,
        *,
        every: int = 1,
        every_seconds: float | None = None,
        monitor: str | None = None,
        higher_is_better: bool | None = None,
        best_only: bool = False,
        keep_last: int = 3,
        resume: bool = False,
        background: bool = True,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better)
        self.directory: Path = path_of("directory", directory)
        self.parameters = parameters
        if parameters is not None and not hasattr(parameters, "keys") and not hasattr(parameters, "named_parameters"):
            raise DTypeError(
                f"Checkpoint: parameters must be the model, or a dict of parameters by name, not {parameters!r}; how "
                f"many checkpoints to keep is keep_last="
            )
        self.every: int = whole("every", every, 1)
        self.every_seconds: float | None = (
            None if every_seconds is None else number("every_seconds", every_seconds, 0.0)
        )
        self.best_only: bool = flag("best_only", best_only)
        if self.best_only and every_seconds is not None:
            raise OptionError("Checkpoint: best_only=True saves after epochs that improve, so leave every_seconds away")
        self.keep_last: int = whole("keep_last", keep_last, 1)
        self.resume: bool = flag("resume", resume)
        self.background: bool = flag("background", background)
        self._checkpoints: Checkpoints | None = None
        # The number of the epoch of a data loader; when the last checkpoint was saved, and whether within an epoch.
        self._loader_epoch: int | None = None
        self._saved_at, self._is_within = 0.0, False

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints in the directory, to list and to load."""
        from wyrm.io.training import Checkpoints

        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self.directory, self.keep_last, higher_is_better=self.higher_is_better)
        return self._checkpoints

    def restore(self, run: Run) -> None:
        """With `resume`, load the latest checkpoint and its history."""
        if not self.resume:
            return
        from wyrm.io.training import step_of

        # The first of several processes wrote: it knows the last checkpoint before the others see the file.
        engine = run.program._engine
        latest = self.checkpoints.latest() if engine.processes[0] == 0 else None
        step = int(engine.agreed(-1 if latest is None else step_of(latest)))
        if step < 0:
            return
        path = self.checkpoints.path(step)
        saved = self.checkpoints.state(path)
        if not {"history", "program"} <= saved.keys():
            raise CheckpointError(f"{os.fspath(path)!r} was not saved by wy.train.Checkpoint, so it has no history")
        # Before the parameters change.
        checked_counts(saved["program"])
        state = self.checkpoints.load(path, self._named(run), run.optimizer)
        run.program.load_state_dict(state["program"])
        run.program._engine.position.load(state.get("position"))
        run.restored = state.get("callbacks", {})
        if _counts_epochs(run.data) and "loader" in state:
            run.data.epoch = state["loader"]
        run.history.update(state["history"])

    def on_start(self, run: Run) -> None:
        """Raise `OptionError` for a training within whose epochs nothing can be saved."""
        super().on_start(run)
        if self.every_seconds is not None and run.threads > 1:
            raise OptionError(
                f"Checkpoint(every_seconds={self.every_seconds:g}) with threads={run.threads}: an epoch goes on where "
                f"it was only in one thread; leave every_seconds away to save after epochs"
            )
        self._saved_at = time.perf_counter()

    def on_epoch_start(self, run: Run) -> None:
        """Note the epoch of a data loader, which counts on when it is iterated."""
        self._loader_epoch = run.data.epoch if _counts_epochs(run.data) else None

    def on_steps(self, run: Run) -> None:
        """Save a checkpoint if enough seconds have passed; raise the error of one that could not be written."""
        self._raise_error_of(self.checkpoints.check)
        done = run.program._engine.position.done.rows
        # The end of an epoch has a checkpoint of its own, and training does not wait for the last one.
        if self._is_late(run, waits=False) and done != run.rows:
            self._save(run, {"position": run.program._engine.position.state()}, self._loader_epoch, None)
            self._is_within = True

    def on_epoch_complete(self, run: Run, values: Mapping[str, float]) -> None:
        """Save a checkpoint if one is due."""
        self._raise_error_of(self.checkpoints.check)
        improved = self.improved(values)
        due = run.epoch % self.every == 0 or run.epoch == run.epochs or run.stopping or self._is_late(run)
        if improved if self.best_only else due:
            self._save(run, {}, run.data.epoch if _counts_epochs(run.data) else None, self.value(values))

    def on_end(self, run: Run) -> None:
        """Wait for the checkpoint that is being written; raise its error."""
        self._raise_error_of(self.checkpoints.wait)

    def _is_late(self, run: Run, *, waits: bool = True) -> bool:
        """Whether `every_seconds` have passed since the last checkpoint, on the first process.

        Unless the training `waits` for it, the last one has been written too.
        """
        if self.every_seconds is None:
            return False
        late = time.perf_counter() - self._saved_at >= self.every_seconds
        return bool(run.program._engine.agreed(late and (waits or not self.checkpoints.is_writing)))

    def _save(self, run: Run, state: dict[str, Any], loader_epoch: int | None, score: float | None) -> None:
        self._raise_error_of(self.checkpoints.wait)
        program = run.program.state_dict()
        state |= {"epoch": run.epoch, "program": program, "history": dict(run.history)}
        state["callbacks"] = states_of(run.callbacks)
        if loader_epoch is not None:
            state["loader"] = loader_epoch
        self._is_within = False
        run.program._engine.gather()
        if run.program._engine.processes[0] == 0:
            self.checkpoints.save(
                program["steps"], self._named(run), run.optimizer, state, score, wait=not self.background
            )  # fmt: skip
        self._saved_at = time.perf_counter()

    def _raise_error_of(self, ask: Callable[[], None]) -> None:
        """Raise what `ask` raises of the checkpoint that was written last, unless training says it better."""
        try:
            ask()
        except NotFinite:
            # Within an epoch the engine says where a loss became infinite, and the parameters before are restored.
            if not self._is_within:
                raise

    def _named(self, run: Run) -> Any:
        return self.parameters if self.parameters is not None else named(run.program.trained)


def _counts_epochs(data: object) -> bool:
    """Whether the data is a loader that counts its epochs, not a table with a column "epoch"."""
    return is_batches(data) and hasattr(data, "epoch")


def named(leaves: Sequence[BaseNode]) -> dict[str, BaseNode]:
    """Return parameters and buffers by position and name, such as "0.weight".

    >>> list(named((wy.Parameter(1.0, name="slope"), wy.Parameter(1.0))))
    ['0.slope', '1.parameter']
    """
    return {f"{position}.{label(leaf)}": leaf for position, leaf in enumerate(leaves)}
