"""Shared by the examples: command line options, progress bar, and training loop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pictures import add_pictures, in_notebook
from tqdm.auto import tqdm

import wyrm as wy

Column = NDArray[Any]
Columns = Mapping[Any, Column]
Figures = Mapping[str, float]
History = dict[str, list[float]]
NO_AXES: Mapping[type[wy.Dim], str] = MappingProxyType({})


def parser(
    description: str, *, epochs: int, data: str | None, engines: Sequence[str] = ("native", "reference", "jax")
) -> argparse.ArgumentParser:
    """Return a parser with the common options; `data` describes the file, None for an example that generates data."""
    result = argparse.ArgumentParser(
        description=description.removeprefix("# "), formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    result.add_argument("--epochs", type=positive, default=epochs, help="passes over the training data")
    result.add_argument(
        "--seed", type=not_negative, default=0, help="seed of the initial weights and the order of the data"
    )
    result.add_argument("--engine", choices=engines, default="native", help="engine that computes the steps")
    help_text = data if data is not None else "unused, since this example generates its data"
    result.add_argument("--data", type=Path, default=None, help=help_text)
    add_pictures(result)
    return result


def arguments(of_notebook: list[str]) -> list[str]:
    """Return the arguments of the command line; a notebook has none, and takes its own."""
    return of_notebook if in_notebook() else sys.argv[1:]


def add_devices(result: argparse.ArgumentParser) -> None:
    """Add the options of `--engine jax`: the mesh of devices, and the processes that train together."""
    group = result.add_argument_group("devices of --engine jax")
    group.add_argument(
        "--mesh", type=mesh_sizes, help="sizes of the mesh, as in data=2,model=1; by default data has all devices"
    )
    group.add_argument(
        "--coordinator", help="HOST:PORT of process 0; 'auto' under Slurm, Kubernetes and Open MPI, which JAX detects"
    )
    group.add_argument(
        "--local-steps", type=positive, default=1, help="steps that each device takes before all are averaged"
    )
    group.add_argument("--processes", type=positive, help="number of processes that train together")
    group.add_argument("--process", type=not_negative, help="number of this one, from 0")


def mesh_sizes(text: str) -> dict[str, int]:
    """Parse the sizes of a mesh, for argparse.

    >>> mesh_sizes("data=2,model=1")
    {'data': 2, 'model': 1}
    """
    sizes = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name or not size.isdigit() or int(size) < 1 or name in sizes:
            raise argparse.ArgumentTypeError(f"sizes of named axes, as in data=2,model=1, not {text!r}")
        sizes[name] = int(size)
    return sizes


def connect(options: argparse.Namespace) -> int:
    """Connect the processes that train together; return the number of this one."""
    if options.coordinator is None and options.processes is None:
        return 0
    if options.engine != "jax":
        raise wy.errors.OptionError("--coordinator and --processes are options of --engine jax")
    if options.coordinator == "auto":
        wy.jax.initialize()
    else:
        wy.jax.initialize(options.coordinator, options.processes, options.process)
    import jax

    return int(jax.process_index())


def engine_options(engine: str, mesh: Mapping[str, int] | None, axes: Mapping[type[wy.Dim], str]) -> dict[str, Any]:
    """Return the options of `wy.compile` for an engine; `axes` has the axis of the mesh for classes of axes."""
    if engine != "jax":
        return {}
    import jax

    if mesh is None:
        if jax.device_count() == 1:
            return {"engine": "jax"}
        mesh = {"data": jax.device_count()}
    return {
        "engine": "jax",
        "mesh": jax.make_mesh(tuple(mesh.values()), tuple(mesh)),
        "sharding": {name: axis for name, axis in axes.items() if axis in mesh},
    }


def positive(text: str) -> int:
    """Parse a number of at least 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


def not_negative(text: str) -> int:
    """Parse a number of at least 0, for argparse."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"at least 0, not {number}")
    return number


class Progress:
    """A progress bar over the epochs that shows the latest figures.

    for epoch in Progress(10): ...; progress.show(loss=0.5)
    """

    def __init__(self, epochs: int, first: int = 0, hidden: bool = False) -> None:
        self._range = range(first, epochs)
        self._bar = tqdm(total=epochs, initial=first, unit="epoch", mininterval=0.5, disable=hidden)

    def __iter__(self) -> Iterator[int]:
        with self._bar:
            for epoch in self._range:
                yield epoch
                self._bar.update()

    def show(self, **figures: float) -> None:
        """Show figures beside the bar."""
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)


def train(
    loss: wy.Tensor[()],
    optimizer: wy.optim.Optimizer,
    columns: Columns,
    options: argparse.Namespace,
    batch_size: int = 1,
    threads: int = 1,
    axes: Mapping[type[wy.Dim], str] = NO_AXES,
    checkpoints: Path | None = None,
    measure: Callable[[], Figures] | None = None,
    watch: Path | None = None,
    compute_dtype: Literal["bfloat16"] | None = None,
) -> History:
    """Train for --epochs epochs in random order, with a progress bar that shows the mean loss; return the figures.

    The figures of each epoch are the mean loss and, by their names, those that `measure` returns after it.

    With `--engine jax`, `axes` has the axis of the mesh for classes of axes, and `checkpoints` is a folder: training
    goes on from its latest checkpoint, and writes one after each epoch. With `--engine native`, the training can be
    watched in the folder `watch`; it has no other figures than the loss, and `compute_dtype` is that of its products.
    """
    history: History = {}
    if options.engine == "jax":
        _train_with_jax(loss, optimizer, columns, options, batch_size, axes, checkpoints, measure, history)
        return history
    program = wy.compile(loss, optimizer, compute_dtype=compute_dtype) if options.engine == "native" else None
    if program is not None and watch is not None:
        found = wy.train.fit(
            program, columns, epochs=options.epochs, batch_size=batch_size, shuffle=True, seed=options.seed,
            threads=threads, progress=True, watch=watch, config=vars(options),
        )  # fmt: skip
        return {"loss": found["loss"]}
    random = np.random.default_rng(options.seed)
    progress = Progress(options.epochs)
    for _ in progress:
        if program is not None:
            mean_loss = program.epoch(columns, batch_size=batch_size, shuffle=True, seed=options.seed, threads=threads)
        else:
            mean_loss = _eager_epoch(loss, optimizer, columns, batch_size, random)
        progress.show(loss=mean_loss)
        _record(history, mean_loss, measure)
    return history


def _record(history: History, mean_loss: float, measure: Callable[[], Figures] | None, before: int = 0) -> None:
    """Append the figures of an epoch to their lists, which begin with NaN for the epochs before the training."""
    for name, value in {"loss": mean_loss, **(measure() if measure is not None else {})}.items():
        history.setdefault(name, [float("nan")] * before).append(float(value))


def _train_with_jax(
    loss: wy.Tensor[()],
    optimizer: wy.optim.Optimizer,
    columns: Columns,
    options: argparse.Namespace,
    batch_size: int,
    axes: Mapping[type[wy.Dim], str],
    checkpoints: Path | None,
    measure: Callable[[], Figures] | None,
    history: History,
) -> None:
    """Train on the devices that JAX has, of all processes; then each process has all parameters."""
    import jax

    devices = engine_options("jax", getattr(options, "mesh", None), axes)
    if "mesh" in devices:
        devices["local_steps"] = getattr(options, "local_steps", 1)
    program: Any = wy.compile(loss, optimizer, **devices)
    if checkpoints is not None and wy.jax.latest_step(checkpoints) is not None:
        wy.jax.restore(program, checkpoints)
    restored = program.state_dict()["epochs"]
    progress = Progress(options.epochs, restored, hidden=jax.process_index() > 0)
    for _ in progress:
        mean_loss = program.epoch(columns, batch_size=batch_size, shuffle=True, seed=options.seed)
        if checkpoints is not None:
            wy.jax.save(program, checkpoints)
        progress.show(loss=mean_loss)
        if measure is not None:
            wy.jax.gather(program)
        _record(history, mean_loss, measure, restored)
    wy.jax.gather(program)


def _eager_epoch(
    loss: wy.Tensor[()],
    optimizer: wy.optim.Optimizer,
    columns: Columns,
    batch_size: int,
    random: np.random.Generator,
) -> float:
    """Train one epoch step by step with the reference engine; return the mean loss."""
    order = random.permutation(len(next(iter(columns.values()))))
    total = 0.0
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        for leaf, column in columns.items():
            leaf.set(column[rows] if leaf.ndim == column.ndim else column[rows[0]])
        total += float(loss.forward()) * len(rows)
        loss.backward()
        optimizer.step()
        loss.zero_gradient()
    return total / len(order)
