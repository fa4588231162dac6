"""What programs share with the rest of their process and with forked processes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from wyrm.engines.native.llvm import lapack

PROGRAM = """
import os, sys, threading, time
import numpy as np, wyrm as wy
class Batch(wy.Dim): ...
x, w = wy.Input(dims=(Batch(),), name="x"), wy.Parameter([1.0, 2.0])
program = wy.compile((w.sum() * x).mean(), wy.optim.SGD([w], 0.001))
columns = {x: np.ones(64, np.float32)}
two = {"threads": 2, "mode": "synchronized", "batch_size": 16}

def forked(work):
    '''Return the exit status of a process that does the work; it is killed after a minute.'''
    child = os.fork()
    if not child:
        import faulthandler
        faulthandler.dump_traceback_later(60, exit=True)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]
"""

# The threads that the parent's program started do not exist in the child.
THREADS = """
program.epoch(columns, **two)
assert forked(lambda: program.epoch(columns, **two)) == 0
program.epoch(columns, **two)
"""

# A thread is about to enter native code, `NAME` of `OWNER`, in an epoch with `batch` rows a batch when the process is
# forked; the child's copy of the program must be free.
INSIDE = """
inside, leave, original = threading.Event(), threading.Event(), getattr(OWNER, NAME)
def slow(self, *arguments):
    inside.set()
    assert leave.wait(60)
    return original(self, *arguments)
def epoch():
    return program.epoch(columns, batch_size=batch)
losses = []
program.epoch(columns, batch_size=16)
setattr(OWNER, NAME, slow)
program._engine.pace.rate = 1e9  # prepared, however slow the first epoch was
thread = threading.Thread(target=lambda: losses.append(epoch()))
thread.start()
assert inside.wait(60)
setattr(OWNER, NAME, original)
before, steps = w.value.copy(), program.optimizer.steps
def works():
    assert (w.value == before).all()
    first = epoch()
    assert epoch() < first and program.optimizer.steps == steps + 2 * (64 // batch)
status = forked(works)
assert (w.value == before).all()
leave.set()
thread.join()
assert status == 0 and len(losses) == 1 and epoch() < losses[0]
"""
CALL = "from wyrm.engines.native.run.runner import NativeRunner as OWNER; NAME, batch = 'call', 32" + INSIDE
PREPARED = "from wyrm.engines.native.llvm.sequence import CallSequence as OWNER; NAME, batch = 'run', 16" + INSIDE

# The process is forked while native code moves the parameters; the child has them as they were at that moment.
MOVING = """
program.epoch(columns, batch_size=1)
program.epoch(columns, batch_size=1)
leave, epochs = threading.Event(), []
def train():
    while not leave.is_set():
        program._engine.pace.rate = 1e9
        epochs.append(program.epoch(columns, batch_size=1))
thread = threading.Thread(target=train)
thread.start()
statuses = [forked(lambda: program.epoch(columns, batch_size=1)) for _ in range(20)]
leave.set()
thread.join()
assert statuses == [0] * 20 and epochs and np.isfinite(epochs).all()
"""

# A forked process that is killed while it shows a bar holds the lock that tqdm shares with all processes.
BARS = """
program.epoch(columns, batch_size=16)
assert "tqdm" not in sys.modules
from tqdm import tqdm
lock = tqdm.get_lock()
def die():
    lock.acquire()
    os._exit(0)
forked(die)
program.epoch(columns, batch_size=16)
assert forked(lambda: program.epoch(columns, batch_size=16, progress=True)) == 0
program.epoch(columns, batch_size=16, progress=True)
"""

# Nor do the threads that share a product, also if one is at work while the process is forked.
PRODUCTS = """
from wyrm.engines.native.products import pool
pool.limit(2)
matrix = wy.Input(dims=(400, 400), name="matrix")
square, ones = wy.compile(matrix @ matrix), {matrix: np.ones((400, 400), np.float32)}
def works():
    for _ in range(5):
        assert (square(ones) == 400.0).all()
works()
thread = threading.Thread(target=lambda: [works() for _ in range(40)])
other = wy.compile(matrix @ matrix)
other(ones)
thread.start()
for _ in range(10):
    assert forked(lambda: (other(ones) == 400.0).all() or os._exit(1)) == 0
thread.join()
works()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
@pytest.mark.parametrize(
    "work",
    [THREADS, CALL, PREPARED, MOVING, BARS, PRODUCTS],
    ids=["threads", "inside a call", "inside a prepared epoch", "inside native code", "bars", "products"],
)
def test_a_program_is_used_in_a_process_that_was_forked(work: str) -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM + work], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr


def blas_threads() -> list[Any]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_last_of_overlapping_programs_gives_blas_its_threads_back() -> None:
    import scipy.linalg.cython_lapack  # noqa: F401  # it has a BLAS of its own

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        first, second, third = (lapack.limited(threads, libraries=True) for threads in (1, 1, 2))
        first.__enter__()
        assert set(blas_threads()) == {1}
        second.__enter__()
        third.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert set(blas_threads()) == {2}
        third.__exit__(None, None, None)
        assert blas_threads() == before


# SciPy's package, whose import takes long, can still be imported after its LAPACK alone.
LAPACK_ALONE = """
import sys
import numpy as np, wyrm as wy
matrix = wy.Parameter(np.array([[4.0, 1.0], [1.0, 3.0]]), name="matrix")
found = wy.compile(wy.linalg.cholesky(matrix))({})
assert "scipy.linalg.cython_lapack" in sys.modules and "scipy.linalg" not in sys.modules
import scipy.linalg
from scipy.linalg.cython_lapack import __pyx_capi__
np.testing.assert_allclose(found, scipy.linalg.cholesky(matrix.value, lower=True))
"""


def test_lapack_is_loaded_without_the_package_around_it() -> None:
    found = subprocess.run([sys.executable, "-c", LAPACK_ALONE], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
