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
    "autograd rebuilds a graph with some arguments constant; wyrm's graphs are built once": {
        "test_misc.py::test_const_graph",
        "test_misc.py::test_const_graph_args",
    },
    "the text of autograd's own docstrings": {"test_wrappers.py::test_wrapped_name_and_docs"},
    "autograd's own `where` of Python numbers returns Python's types": {
        "test_wrappers.py::test_custom_where_dtypes[int-True-1-2]",
        "test_wrappers.py::test_custom_where_dtypes[float-True-3.0-4.0]",
        "test_wrappers.py::test_custom_where_dtypes[float-False-1-2.0]",
        "test_wrappers.py::test_custom_where_dtypes[list-True-x3-y3]",
    },
}
# Fourier transforms have complex values.
_COMPLEX = ("test_fft.py", "test_complex.py")


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
    ignored = [f"--ignore={name}" for name in _COMPLEX]
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
    print(
        f"{counts['passed']} of {total} tests pass ({counts['passed'] / total:.1%}); {counts.get('skipped', 0)} are of complex numbers or need other packages"
    )
    return len(failed - expected.keys()) + counts.get("error", 0)


def main() -> int:
    if len(sys.argv) > 1:
        return run(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        return run(_downloaded(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
