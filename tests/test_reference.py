"""The API reference: pdoc builds a page for every public module, without a warning."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import wyrm as wy
from tests.once import computed_once

pytest.importorskip("pdoc", reason="the reference is built by pdoc, of the extra `docs`")
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def public_modules() -> list[ModuleType]:
    """Return `wyrm` and the modules that it exports, recursively."""
    modules = [wy]
    for module in modules:
        members = [getattr(module, name) for name in module.__all__]
        modules += [member for member in members if isinstance(member, ModuleType) and member not in modules]
    return modules


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return computed_once(tmp_path_factory, "reference", lambda: reference(tmp_path_factory.mktemp("reference")))


def reference(folder: Path) -> dict[str, str]:
    """Return the pages that pdoc writes, by the names of modules."""
    (options,) = re.findall(r"-m pdoc (.*?) -o", README)
    command = [sys.executable, "-W", "error", "-m", "pdoc", *options.split(), "-o", str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert finished.returncode == 0, finished.stderr
    assert "Warn" not in finished.stderr, finished.stderr
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.html")
    }


def test_every_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    missing = []
    for module in public_modules():
        for name in module.__all__:
            member = getattr(module, name)
            found = (
                member.__name__ in pages if isinstance(member, ModuleType) else f'id="{name}"' in pages[module.__name__]
            )
            if not found:
                missing.append(f"{module.__name__}.{name}")
    assert missing == []


@pytest.mark.parametrize("module", [module.__name__ for module in public_modules()])
def test_every_page_opens_with_an_example(module: str) -> None:
    assert ">>> " in (importlib.import_module(module).__doc__ or "")


def test_the_glossary_names_what_there_is_and_fits_a_page() -> None:
    assert wy.__doc__ is not None
    glossary = wy.__doc__.partition("## Glossary")[2]
    assert len(glossary.splitlines()) <= 60
    rooms = [importlib.import_module(name) for name in ("wyrm", "wyrm.graph.base", "wyrm.functions.pytree")]
    names = {name for name in re.findall(r"`([A-Za-z_.]+)`", wy.__doc__) if name != "evaluate"}
    ops = wy.graph.base.BaseNode
    for name in names:
        first, *rest = name.split(".")
        owner = next((room for room in (*rooms, ops, wy.LoopForm) if hasattr(room, first)), None)
        assert owner is not None, name
        member = getattr(owner, first)
        for part in rest:
            member = getattr(member, part)
