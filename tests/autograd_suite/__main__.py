"""Run autograd's own tests on wyrm: `python -m tests.autograd_suite [FOLDER]`.

FOLDER holds autograd's `tests`; by default the source of autograd is downloaded from the package index. A package named
`autograd` stands first on the import path and implements its names by wyrm. Tests of complex numbers are left out. The
command prints each failure that `EXPECTED` does not list, and the share of tests that pass.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "1.9.1"
_SHIM = Path(__file__).parent / "shim"
# Tests that fail, by reason.
EXPECTED = {
    "a cache of graphs, which wyrm's functions keep in another way": {
        "test_misc.py::test_const_graph",
        "test_misc.py::test_const_graph_args",
    },
    "the text of autograd's own docstrings": {"test_wrappers.py::test_wrapped_name_and_docs"},
    "float16, which wyrm lacks": {"test_wrappers.py::test_dtypes"},
    "a count of a mask and a float number: an error that asks for a conversion": {
        "test_binary_ops.py::test_comparison_grads",
        "test_binary_ops.py::test_comparison_values",
    },
    "a number of an array as a Python integer": {"test_numpy.py::test_cast_to_int"},
    "eigenvalues of general matrices, which may be complex": {"test_linalg.py::test_eig_real"},
    "an integrator of differential equations": {"test_scipy.py::test_odeint"},
    "matrix equations": {
        "test_scipy.py::test_solve_banded",
        "test_scipy.py::test_solve_sylvester",
        "test_scipy.py::test_sqrtm",
    },
    "a singular covariance": {"test_scipy.py::test_mvn_sing_cov"},
    "a standard deviation of one element, whose gradient is NaN, as in JAX": {"test_systematic.py::test_std"},
}
# Fourier transforms have complex values.
_COMPLEX = ("test_fft.py", "test_complex.py")
_COMPLEX_TESTS = (
    "test_direct.py::test_holomorphic_grad",
    "test_graphs.py::test_complex_mutating_outgrad_from_indexing",
)


def _downloaded(folder: Path) -> Path:
    """Download and unpack the source of autograd; return the folder of its tests."""
    command = ["download", f"autograd=={VERSION}", "--no-binary", ":all:", "--no-deps", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *command], check=True)
    with tarfile.open(folder / f"autograd-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"autograd-{VERSION}" / "tests"


def run(tests: Path) -> int:
    """Run the tests of the folder; return the number of failures that are not expected."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_SHIM), str(root)])}
    ignored = [*(f"--ignore={name}" for name in _COMPLEX), *(f"--deselect={name}" for name in _COMPLEX_TESTS)]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-q", "-rf"]
    done = subprocess.run([*command, *ignored], cwd=tests, env=environment, capture_output=True, text=True, check=False)
    failed = set(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE))
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)}
    if not counts.get("passed"):
        print(done.stdout[-4000:], done.stderr[-4000:])
        return 1
    expected = {name: reason for reason, names in EXPECTED.items() for name in names}
    for name in sorted(failed):
        print(f"{name}: {expected.get(name, 'NOT EXPECTED')}")
    total = counts["passed"] + counts.get("failed", 0)
    skipped = f"{counts.get('skipped', 0)} are of complex numbers or need other packages"
    print(f"{counts['passed']} of {total} tests pass ({counts['passed'] / total:.1%}); {skipped}")
    return len(failed - expected.keys()) + counts.get("error", 0)


def main() -> int:
    if len(sys.argv) > 1:
        return run(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        return run(_downloaded(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
