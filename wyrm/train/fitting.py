"""`fit`, the loop over epochs with validation and callbacks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from wyrm.engines.columns import given_inputs
from wyrm.engines.epochs import ThreadMode, checked_options
from wyrm.engines.evaluation import RunningMetrics
from wyrm.engines.progress import Bar, LossBar, NoBar, loss_bar
from wyrm.engines.tables import DataT, FeedT, is_batches, row_count
from wyrm.errors import OptionError
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.interrupts import deferred
from wyrm.support.options import flag, whole
from wyrm.train.callbacks import Callback, History, ProgressBar, Run, load_states
from wyrm.train.program import Program


@explains_keywords
def fit(
    program: Program[Any, Any],
    data: DataT,
    *,
    epochs: int,
    batch_size: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    threads: int = 1,
    mode: ThreadMode = "hogwild",
    validation: FeedT | None = None,
    evaluation: Program[Any, Any] | None = None,
    metrics: RunningMetrics | None = None,
    validation_batch_size: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    accumulate: int = 1,
    watch: bool | str | os.PathLike[str] = False,
    config: Mapping[str, object] | None = None,
) -> History:
    """Train for a number of epochs; return the history of losses, metrics and validation.

    Each epoch is `program.epoch(data, batch_size=..., accumulate=..., ...)`: the losses are those of these calls. Short
    epochs between which nothing acts are done together, which takes less time; see `Callback.epochs_ahead`.
    `validation` is a data set that `program.evaluate` takes after each epoch, or the program `evaluation`, as for a
    model with dropout: compile it from a graph built after `model.eval()`. `metrics` are running metrics of the
    validation. `callbacks` act between epochs, in order. `progress` shows a bar with the epoch, its values and the
    rate in rows per second. `watch` is the folder of a run, or True for a new one in `runs`: the training writes what
    it does there, for `python -m wyrm watch FOLDER` to show, see `wy.watch.RunLogger`. `config` has the options of the
    training by name, as in `config={"hidden": 64}` or `config=vars(arguments)`, by which that page compares runs.

    Ctrl-C ends the training between two steps: the result is the history so far, its `stopped` is "interrupted", and
    the parameters are those of the last step. Any other exception, such as `Diverged`, is raised after the callbacks'
    `on_end`.

    Where the loss is a sum over rows, its mean for a row stands beside it as "mean_loss", if no metric has this name.

    Raise what `epoch` raises, and `OptionError` for less than one epoch, for a program without an optimizer, and for a
    validation of a graph built in training mode. Validation data is checked before the first epoch.

    >>> x, y = wy.Input(name="x"), wy.Input(name="y")
    >>> slope = wy.Parameter(0.0)
    >>> loss = (y - slope * x).square()
    >>> train = wy.compile(loss, wy.optim.SGD([slope], learning_rate=0.1))
    >>> data = np.linspace(-1.0, 1.0, 200)
    >>> history = fit(train, {"x": data, "y": 3.0 * data}, epochs=5, validation={"x": [1.0], "y": [3.0]})
    >>> history.stopped, history.epochs, round(float(slope), 3), history["validation_loss"][-1] < 1e-6
    ('completed', 5, 3.0, True)
    """
    epochs, in_batches = whole("epochs", epochs, 1), is_batches(data)
    options = checked_options(
        batch_size=batch_size, shuffle=shuffle, seed=seed, threads=threads, mode=mode,
        progress=flag("progress", progress), accumulate=accumulate, in_batches=in_batches,
    )  # fmt: skip
    if not isinstance(program, Program) or program.optimizer is None:
        given = "one without an optimizer" if isinstance(program, Program) else type(program).__name__
        raise OptionError(
            f"fit trains a program that wy.compile made with an optimizer, not {given}: "
            f"program = wy.compile(loss, wy.optim.Adam(loss.parameters()))"
        )
    if validation is None and (evaluation is not None or metrics is not None):
        raise OptionError("evaluation and metrics are of a validation: give validation={input: column} too")
    # Tables and lists are converted once, and not in each epoch.
    held: Any = data if in_batches else given_inputs(data, program.inputs)
    if epochs > 1 and isinstance(held, Iterator):
        raise OptionError("a generator yields its batches once, so it serves one epoch: give a wy.data.DataLoader")
    validate = None
    if validation is not None:
        validate = _Validation(
            program if evaluation is None else evaluation, validation, validation_batch_size,
            {} if metrics is None else metrics,
        )  # fmt: skip
    steps = _checked_callbacks(callbacks)
    if options.progress:
        steps.append(ProgressBar())
    if not isinstance(watch, bool | str | os.PathLike):
        raise TypeError(f"watch must be True for a new run, or the folder of a run, not {watch!r}")
    if watch is not False:
        from wyrm.watch.logger import RunLogger

        steps.append(RunLogger(None if watch is True else watch, config=config))
    elif config is not None:
        raise OptionError("config is recorded with a run: give watch=True or watch=FOLDER, or RunLogger(config=...)")
    columns = None if in_batches else held
    run = Run(program, data, epochs, row_count(held), options.batch_size, threads, columns, callbacks=steps)
    with ExitStack() as ending:
        for callback in reversed(steps):
            ending.callback(callback.on_end, run)
        try:
            for callback in steps:
                callback.restore(run)
            for callback in steps:
                callback.on_start(run)
            if run.restored is not None:
                load_states(steps, run.restored)
            # Processes that train together have the seconds of the first one, and stop when it does.
            while run.epoch < epochs and not program._engine.agreed(run.stopping):
                for callback in steps:
                    callback.on_epoch_start(run)
                rate, start, most = run.optimizer.learning_rate, time.perf_counter(), 1
                shown = options._replace(progress=_bar_of(run))
                if validate is None and shown.progress is False and not run.optimizer.has_schedule:
                    most = min([epochs - run.epoch, *(callback.epochs_ahead(run) for callback in steps)])
                # Of epochs that are done together, all that are done come into the history before Ctrl-C.
                with deferred if most > 1 else nullcontext():
                    found = program._epochs(held, shown, in_batches=in_batches, most=most)
                    seconds = program._engine.agreed(time.perf_counter() - start) / len(found)
                    for position, (means, mean_loss) in enumerate(found):
                        for callback in steps if position else ():
                            callback.on_epoch_start(run)
                        values = means if isinstance(means, dict) else {"loss": means}
                        if program._totals.adds_up:
                            values = {"loss": values["loss"], "mean_loss": mean_loss, **values}
                        values |= validate() if validate is not None else {}
                        values |= {"learning_rate": rate, "seconds": seconds}
                        with deferred:
                            run.history.begin_epoch(values)
                        for callback in steps:
                            callback.on_epoch_end(run, values)
                        with deferred:
                            run.history.end_epoch(values)
                        for callback in steps:
                            callback.on_epoch_complete(run, values)
            run.finished = True
            run.history.stopped = "early" if run.epoch < epochs else "completed"
        except KeyboardInterrupt:
            run.history.stopped = "interrupted"
    return run.history


class _Steps:
    """The bar of an epoch that calls `on_steps` of callbacks, and shows the run's own bar."""

    def __init__(self, run: Run, callbacks: Sequence[Callback]) -> None:
        self._run, self._callbacks = run, callbacks
        self._shown = NoBar() if isinstance(run.bar, bool) else loss_bar(run.bar)

    def add(self, rows: int, losses: float) -> None:
        """Advance by `rows`, whose losses have the sum `losses`."""
        self._shown.add(rows, losses)
        for callback in self._callbacks:
            callback.on_steps(self._run)


def _bar_of(run: Run) -> bool | Bar | LossBar:
    """Return the bar of the next epoch: the run's own, or one that also calls the callbacks that act between steps."""
    acting = [each for each in run.callbacks if type(each).on_steps is not Callback.on_steps]
    return _Steps(run, acting) if acting else run.bar


def _checked_callbacks(callbacks: Any) -> list[Callback]:
    """Return the callbacks as a list; raise `TypeError` unless that is what they are."""
    if isinstance(callbacks, Callback):
        raise TypeError(f"callbacks must be a list, as in callbacks=[{type(callbacks).__name__}(...)]")
    given = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for callback in given:
        if not isinstance(callback, Callback):
            raise TypeError(
                f"callbacks must be a list of callbacks, as in [wy.train.EarlyStopping(patience=3)], with "
                f"wy.train.LambdaCallback for functions; an element is {callback!r}"
            )
    return given


class _Validation:
    """The evaluation of a data set after each epoch, checked when it is created."""

    def __init__(
        self, program: Program[Any, Any], data: object, batch_size: int | None, metrics: RunningMetrics
    ) -> None:
        if not isinstance(program, Program):
            raise OptionError(f"evaluation must be a program that wy.compile made, not {program!r}")
        if isinstance(data, float):
            raise TypeError(
                f"validation takes data, not the share {data}: "
                f"training, held_out = wy.data.train_test_split(data, {data}), and validation=held_out"
            )
        self._program, self._batch_size, self._metrics = program, batch_size, metrics
        outputs = program.outputs
        self._data: Any = program._evaluator.prepare(outputs, data, batch_size, metrics).columns.given

    def __call__(self) -> dict[str, float]:
        values = self._program.evaluate(self._data, batch_size=self._batch_size, metrics=self._metrics)
        return {f"validation_{name}": value for name, value in values.items()}
