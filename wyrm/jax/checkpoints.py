"""Checkpoints of programs on the devices of several processes: each process writes its part."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from wyrm.engines.jax.engine import JaxEngine
from wyrm.engines.jax.state import State
from wyrm.errors import CheckpointError, DTypeError
from wyrm.graph.base import BaseNode, label
from wyrm.jax.lowering import checked_path, jax_engine
from wyrm.jax.orbax_arrays import restoring, saving
from wyrm.jax.orbax_folders import folder_of, opened, wait, writing
from wyrm.support.imports import jax, jnp
from wyrm.support.interrupts import deferred
from wyrm.support.options import flag, whole
from wyrm.train.program import Program

_COUNTER_NAMES = frozenset(["optimizer", "optimizer_steps", "program", "position", "state"])
# The numbers of rows of arrays that were written with padding, by name; where there are none, a checkpoint lacks it.
_ROWS = "rows"


class _Arrays(NamedTuple):
    """The arrays of a training by name: `values` of parameters and buffers, `slots` of the optimizer's state."""

    values: dict[str, Any]
    slots: dict[str, dict[str, Any]]

    def tree(self) -> dict[str, Any]:
        """Return the arrays as a pytree without empty dicts, which Orbax does not store."""
        slots = {name: arrays for name, arrays in self.slots.items() if arrays}
        return {"values": self.values} | ({"slots": slots} if slots else {})


def save(
    program: Program[Any, Any],
    folder: str | os.PathLike[str],
    *,
    keep: int = 3,
    state: Mapping[str, Any] | None = None,
    wait: bool = True,
) -> Path:
    """Write a checkpoint of a program of `engine="jax"` with an optimizer; return its path, a folder in `folder`.

    It holds the trained parameters and buffers, the optimizer's state, all counters and the position in the epoch, and
    `state`, any JSON values. It is named by the optimizer's steps. Every process calls `save` and writes the parts of
    the arrays that its devices hold, with Orbax; the folder must be on a file system that all processes share, or the
    address of one in an object store, such as "gs://bucket/run", which Orbax opens. A checkpoint
    appears when it is complete, and then all but the last `keep` are removed. Arrays are not compressed: those of CPUs
    are written from their place, and those of other devices copied to the host first.

    With `wait=False` the call returns when the arrays are copied, and threads write the copy: what is written is the
    state at the call, and a step may follow at once. One checkpoint is written at a time. `wy.jax.wait`, the next
    `save`, `restore` and `latest_step` wait for it and raise its error; so does the end of the program, whose error is
    a warning. A process that is killed before leaves the checkpoints before it.

    Raise `CheckpointError` for a folder that cannot be written, or that has a checkpoint of this or a later step, and
    for a `state` that is not JSON; `OptionError` for another engine, and for an object store without its package.

    >>> import tempfile
    >>> x = wy.Parameter(1.0, name="x")
    >>> program = wy.compile(x.square(), wy.optim.Adam([x], 0.1), engine="jax")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loss = program()
    ...     path = wy.jax.save(program, folder, state={"loss": float(loss)})
    ...     loss = program()
    ...     state = wy.jax.restore(program, folder)
    >>> path.name, state, program.optimizer.steps
    ('1', {'loss': 1.0}, 1)
    """
    engine = jax_engine(program, "wy.jax.save")
    optimizer = program.optimizer
    assert optimizer is not None
    checked_path(folder, "wy.jax.save", "folder")
    if state is not None and not isinstance(state, Mapping):
        raise DTypeError(f"wy.jax.save: state must be a dict of JSON values, not {state!r}")
    counters = {
        "optimizer": type(optimizer).__name__,
        "optimizer_steps": optimizer.step_counts(),
        "program": program.state_dict(),
        "position": engine.position.state(),
        "state": {} if state is None else dict(state),
    }
    padded = _padded(engine, program)
    if padded:
        counters[_ROWS] = padded
    try:
        json.dumps(counters, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"state must have JSON values: {error}; nothing was written") from error
    step, background = optimizer.steps, not flag("wait", wait)
    with engine.compiled.precision(), opened(folder, whole("keep", keep, 1), background=background) as manager:
        import orbax.checkpoint as orbax

        latest = manager.latest_step()
        if latest is not None and latest >= step:
            raise CheckpointError(
                f"no checkpoint of step {step} was written: {os.fspath(folder)!r} has one of step {latest}, which "
                f"would stay the latest; restore it, remove it, or use another folder"
            )
        arrays = _arrays(program, engine.state.state()).tree()
        arguments = orbax.args.Composite(
            arrays=saving(_copied(arrays) if background else arrays),
            counters=orbax.args.JsonSave(counters),
        )
        # `force` ignores Orbax's own interval between checkpoints.
        manager.save(step, args=arguments, force=True)
        if background:
            writing.begin(manager, folder, step)
        written = manager.directory / str(step)
        path: Path = written if "://" in os.fspath(folder) else Path(written)
        return path


def restore(program: Program[Any, Any], folder: str | os.PathLike[str], *, step: int | None = None) -> dict[str, Any]:
    """Load a checkpoint that `save` wrote, by default the latest, and return its `state`.

    Every process calls it and reads the parts of the arrays that its devices hold, so the number of processes and
    devices, the mesh and the sharding may be others than those that saved. The next steps are those of a training
    without a break; an epoch that was not finished goes on where it was. The host has the part of one device at a time.
    A program that has trained keeps its arrays until all others are read; the devices of a new one have one set alone.

    Raise `CheckpointError` if there is no such checkpoint, if it cannot be read, or if it is of another program or
    optimizer; nothing has changed then.
    """
    engine = jax_engine(program, "wy.jax.restore")
    optimizer = program.optimizer
    assert optimizer is not None
    checked_path(folder, "wy.jax.restore", "folder")
    with engine.compiled.precision(), opened(folder) as manager:
        import orbax.checkpoint as orbax

        found = manager.latest_step() if step is None else whole("step", step, 0)
        if found is None or found not in manager.all_steps():
            which = "no checkpoint" if step is None else f"no checkpoint of step {step}"
            raise CheckpointError(f"there is {which} in {os.fspath(folder)!r}")
        path = manager.directory / str(found)
        with _reading(path):
            counters = manager.restore(found, args=orbax.args.Composite(counters=orbax.args.JsonRestore())).counters
        if not isinstance(counters, dict) or counters.keys() - {_ROWS} != _COUNTER_NAMES:
            raise CheckpointError(f"{os.fspath(path)!r} was not written by wy.jax.save")
        if counters["optimizer"] != type(optimizer).__name__:
            raise CheckpointError(
                f"{os.fspath(path)!r} is a checkpoint of {counters['optimizer']}, not of {type(optimizer).__name__}"
            )
        wanted = _arrays(program, engine.state.abstract()).tree()
        with _reading(path):
            stored = manager.item_metadata(found).arrays.tree
        _check_arrays(path, wanted, stored, _padded(engine, program), counters.get(_ROWS, {}))
        arguments = orbax.args.Composite(arrays=restoring(wanted))
        # asyncio installs a handler of Ctrl-C unless there is one, and before Python 3.11.8 and 3.12.2 it writes the
        # result of a task, that is the arrays, into a text that nobody reads, to remove it.
        with _reading(path), deferred:
            tree = manager.restore(found, args=arguments).arrays
    program.load_state_dict(counters["program"])
    optimizer.load_step_counts(counters["optimizer_steps"])
    engine.position.load(counters["position"])
    names = list(_names(program))
    slots = [tree.get("slots", {}).get(name, {}) for name in names[: len(engine.graph.parameters)]]
    engine.state.replace(State([tree["values"][name] for name in names], slots, None))
    state: dict[str, Any] = counters["state"]
    return state


def latest_step(folder: str | os.PathLike[str]) -> int | None:
    """Return the step of the latest checkpoint in a folder, None if there is none. Every process calls it.

    >>> wy.jax.latest_step("missing") is None
    True
    """
    wait()
    checked_path(folder, "wy.jax.latest_step", "folder")
    if not folder_of(folder).is_dir():
        return None
    with opened(folder) as manager:
        step: int | None = manager.latest_step()
    return step


def gather(program: Program[Any, Any]) -> None:
    """Copy all trained parameters, buffers and the optimizer's state to the memory of each process.

    Every process calls it. Then each one can read the arrays, as `wy.io.save` does to write a safetensors file, also
    those that were divided over processes. The next step divides them again. Each host needs memory for all of them:
    `bytes_in_all` of `program.sharding`, and as much again for each state that the optimizer has of a parameter.

    >>> x = wy.Parameter(1.0, name="x")
    >>> program = wy.compile(x.square(), wy.optim.SGD([x], 0.25), engine="jax")
    >>> _ = program()
    >>> wy.jax.gather(program)
    >>> float(x)
    0.5
    """
    jax_engine(program, "wy.jax.gather").gather()


def _names(program: Program[Any, Any]) -> dict[str, BaseNode]:
    """Return the trained leaves by position and name, in the order of `program.trained`."""
    return {f"{position}.{label(leaf)}": leaf for position, leaf in enumerate(program.trained)}


def _arrays(program: Program[Any, Any], state: State) -> _Arrays:
    names = list(_names(program))
    return _Arrays(
        dict(zip(names, state.values, strict=True)), dict(zip(names, state.slots, strict=False))
    )  # buffers follow the parameters, and have no slots


def _padded(engine: JaxEngine, program: Program[Any, Any]) -> dict[str, int]:
    """Return the numbers of rows, without padding, of the arrays whose rows are padded on the devices, by name."""
    sharding = engine.placement.sharding
    if sharding is None:
        return {}
    names, arrays = _names(program), _arrays(program, engine.state.abstract()).tree()
    found: dict[str, int] = {}
    for path, array in _flat(arrays):
        leaf = names[path.split("/")[1]]
        if leaf.dims and tuple(array.shape) == sharding.stored_shape(leaf, leaf.shape) != leaf.shape:
            found[path] = leaf.shape[0]
    return found


def _copied(tree: Any) -> Any:
    """Return the arrays that the next step overwrites, copied where Orbax would read them in their place: on a CPU."""
    return jax.tree.map(jnp.copy, tree) if jax.default_backend() == "cpu" else tree


def _check_arrays(
    path: Path,
    wanted: Mapping[str, Any],
    found: Mapping[str, Any],
    our_rows: Mapping[str, int],
    their_rows: Mapping[str, int],
) -> None:
    """Raise `CheckpointError` unless a checkpoint has the program's arrays; the numbers of rows are without padding."""
    ours, theirs = _shapes_and_dtypes(wanted, our_rows), _shapes_and_dtypes(found, their_rows)
    problems = [f"  {name} is missing in it" for name in ours.keys() - theirs.keys()]
    problems += [f"  {name} is in it alone" for name in theirs.keys() - ours.keys()]
    problems += [
        f"  {name} has shape {theirs[name][0]} and dtype {theirs[name][1]} in it, {shape} and {dtype} here"
        for name, (shape, dtype) in ours.items()
        if name in theirs and theirs[name] != (shape, dtype)
    ]
    if problems:
        raise CheckpointError("\n".join([f"{os.fspath(path)!r} is of another program:", *sorted(problems)]))


def _shapes_and_dtypes(tree: Mapping[str, Any], rows: Mapping[str, int]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shapes without padding and the dtypes of arrays by name."""
    return {
        name: ((rows.get(name, array.shape[0]), *array.shape[1:]) if array.shape else (), str(array.dtype))
        for name, array in _flat(tree)
    }


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", value


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise `CheckpointError` for errors of Orbax that come from unexpected JSON in a damaged checkpoint."""
    try:
        yield
    except (AttributeError, TypeError) as error:
        raise CheckpointError(f"{os.fspath(path)!r} is damaged: {error}") from error
