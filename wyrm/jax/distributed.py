"""Connects the processes of a program, such as one on each machine."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from wyrm.engines.jax import processes as lost
from wyrm.engines.jax.processes import Part, part_of
from wyrm.errors import DTypeError, OptionError, ProcessLost
from wyrm.graph.base import BaseNode, describe
from wyrm.jax.lowering import jax_engine, require_jax, shown
from wyrm.support.imports import jax
from wyrm.support.options import whole
from wyrm.train.program import Program

_COME = b"come"
# Seconds between two attempts to reach process 0, and those that a peer may take for its few bytes.
_PAUSE, _PATIENCE = 0.1, 5.0
# The bytes of a message at most.
_LONGEST = 64


def meet(coordinator: str, processes: int, process: int, timeout: int) -> None:
    """Return when all processes have come; raise `ProcessLost` after `timeout` seconds.

    Process 0 listens on the port of `coordinator`, and closes it again. Raise `OptionError` if it cannot.
    """
    host, _, port = coordinator.rpartition(":")
    deadline = time.monotonic() + timeout
    if process:
        _come((host.strip("[]"), int(port)), process, deadline, timeout)
    else:
        _await_others(int(port), processes, deadline, timeout)


def _await_others(port: int, processes: int, deadline: float, timeout: int) -> None:
    both = socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server(
            ("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both
        )
    except OSError as error:
        raise OptionError(
            f"process 0 cannot listen on port {port}: {error.strerror or error}; give another port in coordinator="
        ) from error
    came: dict[int, socket.socket] = {}
    with ExitStack() as open_sockets:
        open_sockets.enter_context(listening)
        while len(came) < processes - 1:
            left = deadline - time.monotonic()
            if left <= 0.0:
                missing = [str(each) for each in range(1, processes) if each not in came]
                raise ProcessLost(
                    f"the processes did not come together in {timeout} seconds: of {processes}, "
                    f"process {', '.join(missing)} did not come"
                )
            listening.settimeout(left)
            with suppress(OSError, ValueError):  # no peer in time, or somebody else
                peer = open_sockets.enter_context(listening.accept()[0])
                peer.settimeout(_PATIENCE)
                number = int(peer.recv(_LONGEST))
                if 0 < number < processes:
                    came[number] = peer
        for peer in came.values():
            with suppress(OSError):
                peer.sendall(_COME)


def _come(address: tuple[str, int], process: int, deadline: float, timeout: int) -> None:
    answer, reached = b"", False
    while not reached and time.monotonic() < deadline:
        try:
            with socket.create_connection(address, timeout=max(_PAUSE, deadline - time.monotonic())) as peer:
                reached = True
                peer.sendall(str(process).encode())
                peer.settimeout(max(_PAUSE, deadline - time.monotonic()) + _PATIENCE)
                with suppress(OSError):  # process 0 ended, or is late
                    answer = peer.recv(_LONGEST)
        except OSError:
            time.sleep(_PAUSE)
    if answer != _COME:
        reason = (
            "process 0 ended, or others did not come" if reached else f"nobody listens at {address[0]}:{address[1]}"
        )
        raise ProcessLost(f"the processes did not come together in {timeout} seconds: {reason}")


# Seconds without a heartbeat after which JAX takes a process for dead and ends the others.
_HEARTBEAT_SECONDS = 20
# Seconds, a week, that a process which has ended its script waits for others that go on alone. JAX would abort it.
_SHUTDOWN_SECONDS = 7 * 24 * 3600


def initialize(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    timeout: int = 300,
) -> None:
    """Connect this process with the others of a computation; each calls it before anything else that uses JAX.

    `coordinator` is "HOST:PORT" of process 0, where its service listens, `processes` is their number and `process` the
    number of this one, from 0. `jax.distributed.initialize` detects those that are missing, under Slurm, Kubernetes,
    Open MPI and on TPUs. It waits for all processes, up to `timeout` seconds. Then `jax.devices()` has the devices of
    all processes, and a program on a mesh of them runs on all; on CPUs they exchange data with Gloo. With `processes=1`
    and in a process that is connected already, nothing happens.

    All processes run the same script, with the same parameters and options. When one dies, the others raise
    `ProcessLost`, or, where a computation cannot be interrupted, JAX ends them within 20 seconds with a message on
    stderr. When one ends with an error or before the others, these end within 40 seconds if a computation waits for it.
    A process without such a computation goes on alone, and those that have ended their script wait for it.

    Raise `OptionError` for options that are missing or do not match, or if JAX has been used before. Raise
    `ProcessLost` if not all processes come in time.

    >>> wy.jax.initialize(processes=1)
    """
    require_jax("wy.jax.initialize")

    whole("timeout", timeout, 1)
    if process is not None:
        whole("process", process, 0)
    if processes is not None and whole("processes", processes, 1) == 1 and not process:
        return
    if processes is not None and process is not None and process >= processes:
        raise OptionError(f"process must be below {processes}, the number of processes, not {process}")
    if jax.distributed.is_initialized():
        _check_same(processes, process)
        return
    if coordinator is not None and not isinstance(coordinator, str):
        raise DTypeError(f"coordinator must be 'HOST:PORT', such as '10.0.0.1:8476', not {coordinator!r}")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise OptionError(f"coordinator must be 'HOST:PORT', such as '10.0.0.1:8476', not {coordinator!r}")
    found = _detected(coordinator, processes, process, timeout)
    if found is not None:
        meet(*found, timeout)
    with _same_sigterm():
        try:
            jax.distributed.initialize(
                coordinator,
                processes,
                process,
                initialization_timeout=timeout,
                heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
                shutdown_timeout_seconds=_SHUTDOWN_SECONDS,
            )
        except ValueError as error:
            raise OptionError(
                f"{str(error).rstrip('.')}: give coordinator='HOST:PORT', processes=N and process=I, or start the "
                f"processes with Slurm, Kubernetes or Open MPI, where JAX detects them"
            ) from error
        except jax.errors.JaxRuntimeError as error:
            raise ProcessLost(f"the processes did not come together in {timeout} seconds: {error}") from error
        except RuntimeError as error:
            raise OptionError(
                "JAX has been used in this process already: call wy.jax.initialize before any other use of JAX, such "
                "as jax.devices(), jax.make_mesh and a program of engine='jax'"
            ) from error
    from jax._src.distributed import global_state  # JAX has no public name for its coordination service

    lost.watch(global_state.client)
    atexit.register(lost.leave)


def _detected(
    coordinator: str | None, processes: int | None, process: int | None, timeout: int
) -> tuple[str, int, int] | None:
    """Return the options with those that JAX detects, under a manager of jobs and on TPUs; None if some are missing."""
    coordinator = coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    if coordinator is None or processes is None or process is None:
        from jax._src.clusters import ClusterEnv  # JAX has no public name for what it detects

        found = ClusterEnv.auto_detect_unset_distributed_params(coordinator, processes, process, None, None, timeout)
        coordinator, processes, process, _ = found
    return None if coordinator is None or processes is None or process is None else (coordinator, processes, process)


def part_of_process(program: Program[Any, Any], leaf: BaseNode | None = None) -> Part:
    """Return which part of each batch this process has: part `index` of `count`, and `rows` of a batch.

    Batches that a process gives to `Program.epoch` from a loader have its own part of the rows; columns have all rows.
    The part is that of the input `leaf`, by default the program's first one, along its first axis. A `datasets` data
    set is divided by `split_dataset_by_node(data, rank=part.index, world_size=part.count)`.

    Where the devices of the mesh are not ordered by process, the rows of a part are not contiguous.

    Raise `OptionError` for a program of another engine, and for devices that share only some rows with another process.

    >>> class Batch(wy.Dim): ...
    >>> x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    >>> program = wy.compile((slope * x).mean(), wy.optim.SGD([slope], 0.1), engine="jax")
    >>> part = wy.jax.part_of_process(program)
    >>> part, part.rows(8)
    (Part(index=0, count=1), slice(0, 8, None))
    """
    engine = jax_engine(program, "wy.jax.part_of_process", trains=False)
    if leaf is not None and not any(leaf is each for each in program.inputs):
        raise OptionError(
            f"wy.jax.part_of_process: {shown(leaf)} is no input of the program; its inputs are "
            f"{', '.join(map(describe, program.inputs))}"
        )
    return part_of(engine.placement, program.inputs[0] if leaf is None else leaf)


def _check_same(processes: int | None, process: int | None) -> None:
    """Raise `OptionError` for options that are not those of this process."""
    for name, given, found in (
        ("processes", processes, jax.process_count()),
        ("process", process, jax.process_index()),
    ):
        if given not in (None, found):
            raise OptionError(f"{name} is {found} since this process was connected, not {given}")


@contextmanager
def _same_sigterm() -> Iterator[None]:
    """Let SIGTERM still end the process: JAX installs a handler that only notes a coming preemption."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)
