"""Programs on several processes: if one process is lost or leaves early, all of them end.

They exchange data in computations, so the others would wait for a missing process forever. There are three cases.

- A process dies. Its sockets close, and the computations of the others fail: they raise `ProcessLost`.
- A machine dies or the network fails. The heartbeats of `jax.distributed` end, and JAX ends the other processes with a
  message on stderr.
- A process ends its script early, by an exception or because it has less to do. It announces that it leaves, and the
  others end if they wait for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wyrm import errors
from wyrm.engines.jax.state import Placement
from wyrm.errors import OptionError, ProcessLost, WyrmError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.ragged import RaggedArray, entries_of
from wyrm.support.imports import jax

# Words in the errors that JAX raises when a process cannot be reached.
_LIBRARIES = ("gloo", "nccl", "rccl", "coordination service")
_SIGNS = (*_LIBRARIES, "connection", "heartbeat", "socket closed", "barrier")
# Seconds between two checks which processes have left.
_PERIOD = 1.0
# Seconds that a computation may go on after another process has left. They are more after a regular end, because the
# last computation may take longer on one process than on another.
_PATIENCE = {"failed": 5.0, "done": 30.0}
_LEFT = "wyrm/left/"


class _Processes:
    """Watches which other processes have left."""

    def __init__(self) -> None:
        self._client: Any = None
        # How each process that has left did so: "failed" or "done".
        self._left: dict[int, str] = {}
        self._depth = 0
        self._failed = self._lost = False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, client: Any) -> None:
        """Start to watch, in a thread; `client` is that of JAX's coordination service."""
        self._client = client
        self._thread = threading.Thread(target=self._look, name="wyrm-processes", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Announce that this process ends, so that others that wait for it end too."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(_PERIOD)
        if self._lost:
            _end_now()

        uncaught = hasattr(sys, "last_value") and not hasattr(sys, "ps1")
        # Without an answer the service is gone, and JAX itself ends this process.
        with suppress(jax.errors.JaxRuntimeError):
            how = "failed" if self._failed or uncaught else "done"
            self._client.key_value_set(f"{_LEFT}{jax.process_index()}", how)
            if uncaught and jax.process_index() == 0:
                self._await_others()
        # JAX would wait for processes that wait for this one.
        if uncaught:
            _end_now()

    def _await_others(self) -> None:
        """Wait until the others have had time to end: the service of process 0 ends with it, and aborts them."""
        deadline = time.monotonic() + _PATIENCE["failed"] + 3 * _PERIOD
        while len(self._client.key_value_dir_get(_LEFT)) < jax.process_count() and time.monotonic() < deadline:
            time.sleep(_PERIOD / 10)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Return a context for a computation of all processes: if it fails because one is lost, raise `ProcessLost`."""
        if self._left and not self._depth:
            self._lost = True
            raise ProcessLost(_message_text(f"{_processes_in_words(self._left)} left before this computation"))
        self._depth += 1
        try:
            yield
            self._failed = False
        except BaseException as error:
            self._failed = True
            if self._depth == 1 and _is_loss(error):
                self._lost = True
                raise ProcessLost(_message_text(f"a computation failed ({_first_line(error)})")) from error
            raise
        finally:
            self._depth -= 1

    def _look(self) -> None:
        """End this process if it still computes some seconds after another one has left."""
        seen: dict[int, float] = {}
        while not self._ending.wait(_PERIOD):
            with suppress(jax.errors.JaxRuntimeError):
                found = self._client.key_value_dir_get(_LEFT)
                left = {int(key.rsplit("/", 1)[1]): how for key, how in found}
                left.pop(jax.process_index(), None)
                self._left = left
            now = time.monotonic()
            for process, how in self._left.items():
                since = seen.setdefault(process, now)
                if self._depth and now - since > _PATIENCE[how] and not self._ending.is_set():
                    text = _message_text(
                        f"{_processes_in_words({process: how})} left, and this process waits for it in a computation"
                    )
                    sys.stderr.write(f"\nProcessLost: {text}\n")
                    with suppress(jax.errors.JaxRuntimeError):
                        self._client.key_value_set(f"{_LEFT}{jax.process_index()}", "failed")
                    _end_now()


_processes = _Processes()
computing: Final = _processes.computing
watch: Final = _processes.watch
leave: Final = _processes.leave


def _is_loss(error: BaseException) -> bool:
    # JAX raises some errors of collectives as a `ValueError`, when it starts a computation.
    signs = _SIGNS if isinstance(error, jax.errors.JaxRuntimeError) else _LIBRARIES
    raised_by_jax = isinstance(error, jax.errors.JaxRuntimeError | ValueError) and not isinstance(error, WyrmError)
    return raised_by_jax and jax.process_count() > 1 and any(sign in str(error).lower() for sign in signs)


def _message_text(what: str) -> str:
    return (
        f"{what}. This is process {jax.process_index()} of {jax.process_count()}, which compute together: end this one "
        f"and start all of them again from the last checkpoint"
    )


def _processes_in_words(left: dict[int, str]) -> str:
    """Return the processes that left as text, such as "process 1 (after an error)"."""
    each = [f"process {process}{' (after an error)' if how == 'failed' else ''}" for process, how in left.items()]
    return " and ".join(each)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]


def _end_now() -> None:
    """End this process with exit code 1, without exit handlers: JAX's wait for other processes."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)


# Rows of a column that are compared between processes.
_SAMPLE = 64


@dataclass(frozen=True)
class Part:
    """Part `index` of `count` equal parts of each batch.

    A part is contiguous, or `blocks` has the numbers of its blocks, of the `of` equal blocks of a batch: where the
    devices of a mesh are not ordered by process.
    """

    index: int = 0
    count: int = 1
    blocks: tuple[int, ...] = field(default=(), repr=False)
    of: int = field(default=0, repr=False)

    def rows(self, rows: int) -> slice | NDArray[np.int64]:
        """Return which of the rows of a batch this part has: a slice, or their numbers where it is not contiguous.

        >>> Part(1, 2).rows(8), Part(0, 2, (0, 3), 4).rows(8)
        (slice(4, 8, None), array([0, 1, 6, 7]))
        """
        if self.blocks:
            size = rows // self.of
            return np.concatenate([np.arange(block * size, (block + 1) * size) for block in self.blocks])
        size = rows // self.count
        return slice(self.index * size, (self.index + 1) * size)

    def own(self, span: slice, rows: int) -> slice:
        """Return where the rows of a device, `span` of a batch of so many `rows`, are among those of this part."""
        first, last, _ = span.indices(rows)
        size = rows // self.of if self.blocks else rows // self.count
        number = self.blocks.index(first // size) if self.blocks else 0
        return slice(number * size + first % size, number * size + first % size + last - first)


def part_of(placement: Placement, leaf: BaseNode) -> Part:
    """Return the part of an input's rows that the devices of this process hold."""
    if not placement.several_processes or not leaf.dims:
        return Part()
    rows = int(placement.sharding.mesh.size)
    shape = (rows, *(1 for _ in leaf.dims[1:]))
    held: dict[int, set[int]] = {}
    for device, span in placement.sharding.of_array(leaf, shape).devices_indices_map(shape).items():
        held.setdefault(device.process_index, set()).update(range(*span[0].indices(rows)))
    own, parts = sorted(held[jax.process_index()]), sorted({tuple(sorted(each)) for each in held.values()})
    if len(parts) * len(own) != rows or sum(map(len, parts)) != rows:
        raise OptionError(
            f"some devices of this process hold rows of {describe(leaf)} that another process has too, and some do "
            f"not, so it cannot read them from batches of its own: order the devices of the mesh by process, or train "
            f"on columns"
        )
    index, contiguous = parts.index(tuple(own)), own[-1] - own[0] < len(own)
    return Part(index, len(parts)) if contiguous else Part(index, len(parts), tuple(own), rows)


def agreed(value: float) -> float:
    """Return the value that process 0 gives; every process calls it."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    # As words: JAX makes float64 numbers float32.
    words = broadcast_one_to_all(np.array([value], np.float64).view(np.uint32))
    return float(np.asarray(words, np.uint32).view(np.float64)[0])


@contextmanager
def agreeing() -> Iterator[None]:
    """Return a context whose error of this library, on any process, is raised by all; every process enters it.

    They all raise the error of the first process that has one, before any of them computes.
    """
    error: WyrmError | None = None
    try:
        yield
    except WyrmError as found:
        error = found
    text = b"" if error is None else f"{type(error).__name__}\n{error}".encode()
    lengths = _of_all([len(text)]).reshape(-1)
    if not lengths.any():
        return
    padded = np.frombuffer(text.ljust(int(lengths.max()), b"\0"), np.uint8).astype(np.uint32)
    texts = [bytes(row[:length].astype(np.uint8)) for row, length in zip(_of_all(padded), lengths, strict=True)]
    first = int(np.argmax(lengths > 0))
    name, _, message = texts[first].decode().partition("\n")
    if error is not None and all(each == text for each in texts):
        raise error
    raise getattr(errors, name, WyrmError)(f"on process {first}: {message}") from error


def check_same(named: Mapping[str, object]) -> None:
    """Raise `OptionError` for a value that differs between processes, with its name; every process calls it."""
    own = np.array([fingerprint(value) for value in named.values()], np.uint32)
    summaries = _of_all([zlib.crc32(repr(list(named)).encode()), zlib.crc32(own.tobytes())])
    if (summaries == summaries[0]).all():
        return
    what = "what is trained or fed, or the number of batches,"
    other = int(np.argmax((summaries != summaries[0]).any(axis=1)))
    if (summaries[:, 0] == summaries[0, 0]).all():
        every = _of_all(own)
        position = int(np.argmax((every != every[0]).any(axis=0)))
        what, other = list(named)[position], int(np.argmax(every[:, position] != every[0, position]))
    raise OptionError(
        f"{what} of process {other} differs from that of process 0; all processes must run the same script with the "
        f"same seeds, options and data"
    )


def _of_all(numbers: Sequence[int] | NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the numbers that each process gives, one row for each."""
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(np.asarray(numbers, np.uint32))).reshape(-1, len(numbers))


def by_name(data: Mapping[BaseNode, Any]) -> dict[str, object]:
    """Return the arrays of data by a name for errors; of rows of different lengths the entries, and the lengths."""
    found: dict[str, object] = {f"the data of {describe(leaf)}": entries_of(array) for leaf, array in data.items()}
    ragged = ((leaf, array) for leaf, array in data.items() if isinstance(array, RaggedArray))
    return found | {f"the lengths of the rows of {describe(leaf)}": array.lengths for leaf, array in ragged}


def fingerprint(value: object) -> int:
    """Return a checksum of an array (of 64 of its rows if it has more) or of another value.

    >>> fingerprint(np.zeros(3)) == fingerprint(np.zeros(3)), fingerprint([1, 2]) == fingerprint([2, 1])
    (True, False)
    """
    if not isinstance(value, np.ndarray):
        return zlib.crc32(repr(value).encode())
    chosen = np.unique(np.linspace(0, max(len(value) - 1, 0), _SAMPLE).astype(np.int64)) if value.ndim else ()
    sample: NDArray[Any] = value[chosen] if value.ndim and len(value) else value
    return zlib.crc32(repr((value.shape, value.dtype.str)).encode() + np.ascontiguousarray(sample).tobytes())
