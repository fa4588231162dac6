"""`python -m tests.site [PAGE ...]` writes the outputs that the pages of the site show."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.site.pages import DOCS, pages, run

if __name__ == "__main__":
    wanted = [Path(name).resolve() for name in sys.argv[1:]]
    os.chdir(tempfile.mkdtemp())
    for page in pages():
        if not wanted or page in wanted:
            print(page.relative_to(DOCS))  # noqa: T201  # the progress
            page.write_text(run(page, {"__name__": "page"}), encoding="utf-8")
