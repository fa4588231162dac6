"""The map of rooms, `docs/rooms.svg`: the packages of wyrm in layers; each imports only what stands below it."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path
from xml.etree import ElementTree

from tests.guide.forms import ROOT

PICTURE = ROOT / "docs" / "rooms.svg"
_WIDTH, _LINE, _MARGIN = 1000, 17, 10
_INK, _PAPER, _FRAME = "#212529", "#f8f9fa", "#adb5bd"


def layers() -> list[list[str]]:
    """Return the packages of each layer, the highest first, as the contract of import-linter has them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (found,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in re.split(r"[:|]", layer)] for layer in found]


def folder_of(package: str) -> Path:
    """Return the folder, or the file, of a package."""
    folder = ROOT.joinpath(*package.split("."))
    return folder if folder.is_dir() else folder.with_suffix(".py")


def purpose(path: Path) -> str:
    """Return what a package says that it is: the first line of its docstring."""
    file = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def inner(path: Path) -> list[Path]:
    """Return the packages directly inside a package."""
    return sorted(each for each in path.iterdir() if (each / "__init__.py").exists()) if path.is_dir() else []


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text in a box of so many pixels."""
    return textwrap.wrap(text, max(8, int(width / 6.6)))


def _texts_of(package: str, width: int) -> list[tuple[str, str]]:
    """Return the lines in the box of a package, each with the weight of its font."""
    path = folder_of(package)
    lines = [(package.removeprefix("wyrm."), "bold")]
    lines += [(line, "normal") for line in _wrapped(purpose(path), width)]
    names = ", ".join(each.name for each in inner(path) if each.name != "static")
    return lines + [(line, "normal") for line in _wrapped(f"with {names}" if names else "", width)]


def picture() -> str:
    """Return the map as the text of an SVG file."""
    drawing = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg")
    top = _MARGIN
    for layer in layers():
        for start in range(0, len(layer), 4):
            row = layer[start : start + 4]
            width = (_WIDTH - _MARGIN * (len(row) + 1)) // len(row)
            boxes = [_texts_of(package, width - 2 * _MARGIN) for package in row]
            height = _LINE * max(map(len, boxes)) + _MARGIN
            for place, lines in enumerate(boxes):
                left = _MARGIN + place * (width + _MARGIN)
                frame = {"x": left, "y": top, "width": width, "height": height, "rx": 4}
                colors = {"fill": _PAPER, "stroke": _FRAME}
                ElementTree.SubElement(drawing, "rect", {key: str(value) for key, value in frame.items()} | colors)
                for number, (text, weight) in enumerate(lines):
                    place_of = {"x": str(left + _MARGIN), "y": str(top + _LINE * (number + 1)), "fill": _INK}
                    style = {"font-family": "sans-serif", "font-size": "12", "font-weight": weight}
                    ElementTree.SubElement(drawing, "text", {**place_of, **style}).text = text
            top += height + _MARGIN
    drawing.set("viewBox", f"0 0 {_WIDTH} {top}")
    drawing.set("width", str(_WIDTH))
    drawing.set("height", str(top))
    ElementTree.indent(drawing)
    return ElementTree.tostring(drawing, encoding="unicode") + "\n"
