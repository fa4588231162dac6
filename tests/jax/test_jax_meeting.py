"""Processes wait for each other before JAX does, and say who is missing."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.engines.jax.processes import free_port
from wyrm.errors import OptionError, ProcessLost
from wyrm.jax.distributed import meet


def test_all_that_come_go_on_together() -> None:
    coordinator = f"localhost:{free_port()}"
    with ThreadPoolExecutor(3) as threads:
        for each in [threads.submit(meet, coordinator, 3, process, 60) for process in (2, 0, 1)]:
            each.result()


def test_those_that_are_missing_are_named_by_all() -> None:
    coordinator = f"localhost:{free_port()}"
    with ThreadPoolExecutor(2) as threads:
        first, third = (threads.submit(meet, coordinator, 4, process, 2) for process in (0, 2))
        with pytest.raises(ProcessLost, match="did not come together in 2 seconds: of 4, process 1, 3 did not come"):
            first.result()
        with pytest.raises(ProcessLost, match="process 0 ended, or others did not come"):
            third.result()


def test_a_first_process_that_is_missing_is_named() -> None:
    port = free_port()
    with pytest.raises(ProcessLost, match=f"in 1 seconds: nobody listens at localhost:{port}"):
        meet(f"localhost:{port}", 2, 1, 1)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"process 0 cannot listen on port {port}: .*another port"):
            meet(f"localhost:{port}", 2, 0, 60)


def test_what_is_no_process_is_not_counted() -> None:
    port = free_port()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(meet, f"localhost:{port}", 2, 0, 3)
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"7", b""):
            while True:
                try:
                    with socket.create_connection(("localhost", port), timeout=60) as stranger:
                        stranger.sendall(words)
                    break
                except OSError:
                    assert not first.done()
        with pytest.raises(ProcessLost, match="process 1 did not come"):
            first.result()
