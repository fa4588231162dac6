"""The code of the site's pages runs, and prints what they show; their links lead to pages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.site.pages import DOCS, ROOT, links, pages, run

CODE = [page for page in pages() if "```python" in page.read_text(encoding="utf-8")]


def named(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.mark.parametrize("page", CODE, ids=named)
def test_a_page_runs_and_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run(page, {"__name__": "page"})
    assert shown == page.read_text(encoding="utf-8"), "run python -m tests.site"


@pytest.mark.parametrize("page", pages(), ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    contents = importlib.import_module("tests.site.reference").contents()
    for target in links(page):
        path = (page.parent / target.partition("#")[0]).resolve() if not target.startswith("#") else page
        if path.parent == DOCS / "reference" / "api":
            assert path.stem in {*contents, "index"}, target
        elif path.parent == DOCS / "learn" / "examples":
            assert (ROOT / "examples" / f"{path.stem}.py").exists(), target
        else:
            assert path.exists(), target


def test_every_page_is_in_a_table_of_contents() -> None:
    listed: set[Path] = set()
    for page in pages():
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in tree.splitlines():
                name = re.sub(r".*<(.*)>", r"\1", line).strip()
                if name and not name.startswith(":"):
                    listed.add((page.parent / f"{name}.md").resolve())
    assert {page for page in pages() if page != DOCS / "index.md"} <= listed
