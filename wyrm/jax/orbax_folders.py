"""Folders of Orbax's checkpoints, opened to read and to write; one may be written while training goes on."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wyrm.engines.jax.processes import computing
from wyrm.errors import CheckpointError, OptionError, ProcessLost
from wyrm.jax.orbax_arrays import arrays_handler
from wyrm.support.imports import missing_package, unread

ARRAYS, COUNTERS = "arrays", "counters"


def folder_of(path: str | os.PathLike[str]) -> Any:
    """Return a folder for Orbax: an absolute path, or for an address such as "gs://bucket/run" that of an object store.

    Raise `OptionError` if a package for the object store is missing, or no store has such addresses.
    """
    text = os.fspath(path)
    if "://" not in text:
        return Path(path).absolute()
    from etils import epath

    try:
        folder = epath.Path(text)
    except KeyError as error:
        begin = "object stores begin with gs://, s3:// or az://"
        raise OptionError(f"{text!r} is no address of a folder: those of {begin}") from error
    try:
        folder.is_dir()
    except ImportError as error:
        raise OptionError(f"checkpoints in {text!r}: {error}") from error
    return folder


class _Writing:
    """The checkpoint that Orbax's threads are writing, if any."""

    def __init__(self) -> None:
        self._current: tuple[Any, str, int] | None = None
        self._registered = False

    def begin(self, manager: Any, folder: str | os.PathLike[str], step: int) -> None:
        """Note that a manager is writing the checkpoint of a step."""
        if not self._registered:
            # Orbax's threads start others, which Python refuses once it has shut down its pools: before `atexit`.
            threading._register_atexit(self._at_exit)  # type: ignore[attr-defined]  # there is no public one so early
            self._registered = True
        self._current = manager, os.fspath(folder), step

    def finish(self) -> None:
        """Wait for it; raise `CheckpointError` if it was not written."""
        if self._current is None:
            return
        (manager, folder, step), self._current = self._current, None
        with told(folder, f"no checkpoint of step {step} was written in {folder!r}, earlier ones stay"):
            try:
                manager.wait_until_finished()
            finally:
                manager.close()

    def _at_exit(self) -> None:
        try:
            self.finish()
        except Exception as error:
            warnings.warn(f"{error}; call wy.jax.wait() to have it raised", RuntimeWarning, stacklevel=2)


writing = _Writing()


@contextmanager
def opened(folder: str | os.PathLike[str], keep: int | None = None, *, background: bool = False) -> Iterator[Any]:
    """Open the checkpoints of a folder, to write with `keep`; errors of files become `CheckpointError`.

    A checkpoint that is being written is waited for. With `background` the manager stays open: give it to `writing`.
    """
    try:
        orbax = unread("orbax.checkpoint")
    except ImportError as error:
        raise missing_package("a checkpoint of engine='jax'", "Orbax", "jax", name=error.name) from error
    writing.finish()
    writes = keep is not None
    place = folder_of(folder)
    if not writes and not place.is_dir():
        raise CheckpointError(f"there is no checkpoint in {os.fspath(folder)!r}")
    options = orbax.CheckpointManagerOptions(
        max_to_keep=keep, create=writes, cleanup_tmp_directories=writes, enable_async_checkpointing=background
    )
    handlers = {ARRAYS: arrays_handler(), COUNTERS: orbax.JsonCheckpointHandler()}
    with told(folder, f"the checkpoints in {os.fspath(folder)!r} cannot be used"):
        manager = orbax.CheckpointManager(place, options=options, item_handlers=handlers)
        kept = False
        try:
            yield manager
            kept = background
        finally:
            if not kept:
                manager.close()


@contextmanager
def told(folder: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Raise `CheckpointError`, which begins with `what`, for errors of files and of Orbax."""
    try:
        with computing():
            yield
    except (CheckpointError, OptionError, ProcessLost):
        raise
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{what}: {error}") from error


def wait() -> None:
    """Return when no checkpoint is being written; raise the error of one that `save(..., wait=False)` began.

    Every process calls it. `save`, `restore` and `latest_step` do the same first.

    Raise `CheckpointError` if the checkpoint could not be written; earlier ones stay.

    >>> wy.jax.wait()
    """
    writing.finish()
