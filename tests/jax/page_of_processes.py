"""Runs the script of the page on several processes in the folder that is given, as one of them."""

from __future__ import annotations

import os
import sys

from tests.site.pages import DOCS, blocks

PAGE = DOCS / "how-to" / "processes.md"

if __name__ == "__main__":
    source = "\n".join(block["source"] for block in blocks(PAGE))
    os.chdir(sys.argv[1])
    exec(compile(source, str(PAGE), "exec"), {"__name__": "__main__"})
