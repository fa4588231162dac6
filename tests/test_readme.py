"""The README runs and is a first screen; the project's files agree on its version and its addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_python_block_runs_and_prints_what_stands_below(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == text.count("```python") == 1
    for block, shown in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
        right, _, what = capsys.readouterr().out.partition(" ")
        assert int(right) >= 98 and shown == f"100 {what}"  # processors round in other ways


def test_the_first_two_shell_blocks_are_the_whole_set_up() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    install, test = blocks[:2]
    assert "examples/fizzbuzz.py" in install and "examples/bpr_movielens.py" in install
    assert "-m pytest" in test
    assert len(install.strip().splitlines()) == len(test.strip().splitlines()) == 1


def test_it_is_a_first_screen_with_links_that_work_anywhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    with (ROOT / "pyproject.toml").open("rb") as file:
        addresses = tomllib.load(file)["project"]["urls"]
    pages = re.findall(r"\]\(([^)]*)\)", text)
    assert pages and all(target.startswith((addresses["Documentation"], addresses["Repository"])) for target in pages)
    for page in pages:
        site, _, path = page.partition(f"{addresses['Documentation']}/")
        target = f"docs/{path.removesuffix('.html')}.md" if not site else page.partition("/blob/main/")[2]
        assert (ROOT / target).exists(), page
    assert all((ROOT / path).exists() for path in re.findall(r'src(?:set)?="([^"]*)"', text))


def test_it_shows_what_mypy_says_of_swapped_layers() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- swapped -->\n```text\n(.*?)```", text, re.DOTALL)
    recorded = [(ROOT / f"docs/recorded/swapped-{name}.txt").read_text(encoding="utf-8") for name in ("mypy", "plugin")]
    assert all(line in "".join(recorded) for line in shown.splitlines() if line)


def test_the_files_of_the_project_agree_on_its_version_and_addresses() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {project['version']}\n" in citation
    files = [
        ROOT / "CITATION.cff",
        ROOT / "README.md",
        *(ROOT / ".github").rglob("*.*"),
        *(ROOT / "docs").rglob("*.md"),
    ]
    addresses = tuple(project["urls"].values())
    for path in files:
        for found in re.findall(r"https://[\w./-]*wyrm[\w./-]*", path.read_text(encoding="utf-8")):
            assert found.startswith(addresses), f"{found} in {path.name} is no address of pyproject.toml"
