"""The pages of the site: their Python blocks, run in order, and the outputs that they show.

Each page is a program of its own. The text block after the comment
`<!-- output -->` is what the Python block above it prints, after `<!-- output: an error -->` with its error;
`python -m tests.site` writes these anew. What differs from run to run, such as times, stands after `<!-- output: of one
run -->`.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wyrm as wy

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# A Python block, and the output below it.
_BLOCK = re.compile(
    r"^(?P<code>```python\n(?P<source>.*?)^```\n)"
    r"(?P<output>(?P<start>\n<!-- output(?P<kind>: an error)?(?P<once>:? of one run)? -->\n```text\n)"
    r"(?P<text>.*?)(?P<end>^```\n))?",
    re.DOTALL | re.MULTILINE,
)


def pages() -> list[Path]:
    """Return the pages that are written by hand."""
    generated = DOCS / "reference" / "api", DOCS / "learn" / "examples"
    found = sorted(path for path in DOCS.rglob("*.md") if path.parent not in generated)
    return [path for path in found if not path.name.startswith("benchmarks")]


def blocks(page: Path) -> Iterator[re.Match[str]]:
    """Yield the Python blocks of a page."""
    yield from _BLOCK.finditer(page.read_text(encoding="utf-8"))


def run(page: Path, namespace: dict[str, Any]) -> str:
    """Run the blocks of a page in a namespace; return its text with the outputs of this run.

    An error is part of an output that says so; any other one is raised.
    """

    def replaced(found: re.Match[str]) -> str:
        printed = io.StringIO()
        name = f"{page.stem}.py"
        linecache.cache[name] = (len(found["source"]), None, found["source"].splitlines(keepends=True), name)
        code = compile(found["source"], name, "exec")
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            if not found["output"]:
                exec(code, namespace)
                return found[0]
            try:
                exec(code, namespace)
                assert found["kind"] != ": an error", f"{name} raises no error: {found['source']}"
            except AssertionError:
                raise
            except Exception as error:
                if found["kind"] != ": an error":
                    raise
                printed.write(f"{type(error).__module__}.{type(error).__name__}: {error}\n")
        text = textwrap.dedent(printed.getvalue()).replace(str(page.parent), "...")
        shown = found["text"] if found["once"] and found["text"].strip() else text
        return f"{found['code']}{found['start']}{shown}{found['end']}"

    wy.nn.seed(0)  # as in a new process, whatever was built in this one
    return _BLOCK.sub(replaced, page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[str]:
    """Yield the targets of the links of a page, without those of other sites and those in code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
        if not re.match(r"[a-z]+:", target):
            yield target
