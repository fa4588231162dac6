"""The callback that saves checkpoints of a training, and continues from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wyrm.engines.tables import is_batches
from wyrm.errors import CheckpointError, DTypeError
from wyrm.graph.base import BaseNode, label
from wyrm.support.files import path_of
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import flag, whole
from wyrm.train.arguments import checked_counts
from wyrm.train.callbacks import Run, states_of
from wyrm.train.monitoring import Monitor

if TYPE_CHECKING:
    from wyrm.io.training import Checkpoints
    from wyrm.nn.module import Module


class Checkpoint(Monitor):
    """Saves a `wy.io.Checkpoints` checkpoint every `every` epochs and after the last, and can continue from the latest.

    It holds parameters, buffers, optimizer, the program's counters, the history and the states of all callbacks, see
    `Callback`, as they are when each has seen the epoch. `parameters` is the model, or a
    mapping from names; by default the program's parameters are saved under their names and positions. The score is the
    monitored value, see `Monitor`: the best and the last `keep_last` checkpoints are kept. With `best_only`, only
    epochs that improve are saved. With `resume`, training continues after the latest checkpoint in the directory, if
    there is one: `epochs` of `fit` counts from the start, and the result is that of a training without a break.

    Raise `OptionError` for `every` or `keep_last` below 1, `CheckpointError` for what cannot be written or does not
    match.

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
        monitor: str | None = None,
        higher_is_better: bool = False,
        best_only: bool = False,
        keep_last: int = 3,
        resume: bool = False,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better)
        self.directory = path_of("directory", directory)
        self.parameters = parameters
        if parameters is not None and not hasattr(parameters, "keys") and not hasattr(parameters, "named_parameters"):
            raise DTypeError(
                f"Checkpoint: parameters must be the model, or a dict of parameters by name, not {parameters!r}; how "
                f"many checkpoints to keep is keep_last="
            )
        self.every = whole("every", every, 1)
        self.best_only = flag("best_only", best_only)
        self.keep_last = whole("keep_last", keep_last, 1)
        self.resume = flag("resume", resume)

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints in the directory, to list and to load."""
        from wyrm.io.training import Checkpoints

        return Checkpoints(self.directory, self.keep_last, higher_is_better=self.higher_is_better)

    def restore(self, run: Run) -> None:
        """With `resume`, load the latest checkpoint and its history."""
        path = self.checkpoints.latest() if self.resume else None
        if path is None:
            return
        saved = self.checkpoints.state(path)
        if not {"history", "program"} <= saved.keys():
            raise CheckpointError(f"{os.fspath(path)!r} was not saved by wy.train.Checkpoint, so it has no history")
        # Before the parameters change.
        checked_counts(saved["program"])
        state = self.checkpoints.load(path, self._named(run), run.optimizer)
        run.program.load_state_dict(state["program"])
        run.restored = state.get("callbacks", {})
        if _counts_epochs(run.data) and "loader" in state:
            run.data.epoch = state["loader"]
        run.history.update(state["history"])

    def on_epoch_complete(self, run: Run, values: Mapping[str, float]) -> None:
        """Save a checkpoint if one is due."""
        improved = self.improved(values)
        due = run.epoch % self.every == 0 or run.epoch == run.epochs or run.stopping
        if not (improved if self.best_only else due):
            return
        program = run.program.state_dict()
        state = {"epoch": run.epoch, "program": program, "history": dict(run.history)}
        state["callbacks"] = states_of(run.callbacks)
        if _counts_epochs(run.data):
            state["loader"] = run.data.epoch
        self.checkpoints.save(program["steps"], self._named(run), run.optimizer, state, self.value(values))

    def _named(self, run: Run) -> Any:
        return self.parameters if self.parameters is not None else named(run.program.trained)


def _counts_epochs(data: object) -> bool:
    """Whether the data is a loader that counts its epochs, and no table with a column of that name."""
    return is_batches(data) and hasattr(data, "epoch")


def named(leaves: Sequence[BaseNode]) -> dict[str, BaseNode]:
    """Return parameters and buffers by position and name, such as "0.weight".

    >>> list(named((wy.Parameter(1.0, name="slope"), wy.Parameter(1.0))))
    ['0.slope', '1.parameter']
    """
    return {f"{position}.{label(leaf)}": leaf for position, leaf in enumerate(leaves)}
