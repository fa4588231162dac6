"""Runs examples one after the other in one process, and writes what each prints as JSON.

python -W error -m tests.examples.together '[["fizzbuzz.py", "--help"], ["resnet.py", "--epochs", "1"]]'
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path

from wyrm.engines.native.llvm import cache

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name: str, *arguments: str) -> str:
    """Return what an example prints as a script with these arguments."""
    sys.argv = [str(EXAMPLES / name), *arguments]
    if (folder := str(Path(sys.argv[0]).parent)) not in sys.path:
        sys.path.insert(0, folder)  # as Python does for a script
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    return text.getvalue()


def main() -> None:
    # Trainings of a few epochs take less time than LLVM's optimizations of them.
    cache.LEVEL = 0
    sys.stdout.write(json.dumps([printed(*call) for call in json.loads(sys.argv[1])]))


if __name__ == "__main__":
    main()
