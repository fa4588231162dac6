"""The guide for contributors is true: its outputs are those of today, and its extensions work."""

from __future__ import annotations

import re
from pathlib import Path

from tests.guide import rooms
from tests.guide.extensions import apply_all, extensions, run_commands
from tests.guide.forms import GUIDE, OUTPUT, ROOT, excerpt, forms_of_the_model


def operations(function: str) -> list[str]:
    """Return the operations of a function as JAX prints it; their notation differs between versions of JAX."""
    return re.findall(r"= (\w+)", function)


def test_the_outputs_are_those_of_today(tmp_path: Path) -> None:
    shown = {found["name"]: found["text"] for found in OUTPUT.finditer(GUIDE.read_text(encoding="utf-8"))}
    forms = forms_of_the_model(tmp_path)
    assert operations(shown.pop("jax")) == operations(forms.pop("jax"))
    assert len(shown) > 6
    assert shown == {name: excerpt(forms, name) for name in shown}, "run python -m tests.guide"


def test_the_map_of_rooms_is_that_of_today() -> None:
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.picture(), "run python -m tests.guide"


def test_every_package_is_in_the_map() -> None:
    named = {package.split(".")[1] for layer in rooms.layers() for package in layer}
    assert named == {path.name for path in rooms.inner(ROOT / "wyrm")} | {"errors", "module"}


def test_the_extensions_work(tmp_path: Path) -> None:
    assert len(extensions()) == 10
    apply_all(tmp_path)
    _, ops, own, *others = run_commands(tmp_path)
    assert own.startswith("from ")
    assert all(printed.count(".") >= 2 for printed in (ops, *others))
