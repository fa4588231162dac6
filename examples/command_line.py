"""Shared by the examples: command line options and a progress bar."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from pictures import add_pictures, in_notebook
from tqdm.auto import tqdm

import wyrm as wy

Column = NDArray[Any]
Columns = Mapping[Any, Column]
History = dict[str, list[float]]


def parser(
    description: str, *, epochs: int, data: str | None, engines: Sequence[str] = ("native", "jax")
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
    """A progress bar over the epochs that shows the latest figures, and keeps them.

    progress = Progress(10)
    for epoch in progress: progress.show(loss=0.5)
    progress.history["loss"]

    The figures of the epochs before `first` are NaN.
    """

    def __init__(self, epochs: int, first: int = 0, hidden: bool = False) -> None:
        self.history: History = {}
        self._range = range(first, epochs)
        self._bar = tqdm(total=epochs, initial=first, unit="epoch", mininterval=0.5, disable=hidden)

    def __iter__(self) -> Iterator[int]:
        with self._bar:
            for epoch in self._range:
                yield epoch
                self._bar.update()

    def show(self, **figures: float) -> None:
        """Show the figures of an epoch beside the bar, and append each to its list in `history`."""
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)
        for name, value in figures.items():
            self.history.setdefault(name, [float("nan")] * self._range.start).append(value)
