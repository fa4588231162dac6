"""Processes wait for each other before JAX does, and say who is missing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import wyrm as wy
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


def slurm(process: int, processes: int) -> dict[str, str]:
    """Return the variables of a job of Slurm on this machine, with a port that is free."""
    port = free_port()
    while port < 65535 - 2**12 + 1:  # JAX takes one of the last 4,096
        port = free_port() | 0xF000
    return {
        "SLURM_JOB_ID": str(port - (65535 - 2**12 + 1)),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": str(processes),
        "SLURM_PROCID": str(process),
        "SLURM_LOCALID": "0",
    }


def test_a_job_of_slurm_that_lacks_a_process_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in slurm(0, 2).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ProcessLost, match="did not come together in 1 seconds: of 2, process 1 did not come"):
        wy.jax.initialize(timeout=1)


def test_the_processes_of_a_job_of_slurm_compute_together() -> None:
    script = (
        "import jax, numpy as np, wyrm as wy\n"
        "wy.jax.initialize(timeout=60)\n"
        "from jax.experimental.multihost_utils import process_allgather\n"
        "print(process_allgather(np.array(jax.process_index())).tolist())"
    )
    job = slurm(0, 2)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, **job, "SLURM_PROCID": str(process), "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    assert ["[0, 1]" in process.communicate()[0] for process in processes] == [True, True]


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
