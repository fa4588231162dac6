"""Lets the processes of a program wait for each other, before JAX does: JAX ends a process whose peers do not come."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress

from wyrm.errors import OptionError, ProcessLost

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
