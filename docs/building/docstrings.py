"""Docstrings as the Markdown of the site: examples as code, errors as a list, names in backticks as links."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable

# A name in single backticks, as in `nn.Conv2d`.
_NAME = re.compile(r"(?<!`)`([A-Za-z_][A-Za-z_0-9.]*)`(?!`)")
_SECTION = re.compile(r"(Raises|Returns|Args|Yields|Note):")


def markdown_of(docstring: str | None, link: Callable[[str], str | None]) -> str:
    """Return a docstring as Markdown; `link` returns the full name that a name in backticks stands for, if any."""
    parts: list[str] = []
    for paragraph in _paragraphs(inspect.cleandoc(docstring or "")):
        lines = paragraph.splitlines()
        if lines[0].startswith(">>> "):
            code = [("# doctest" not in line and line) or re.sub(r"\s*# doctest:.*", "", line) for line in lines]
            parts.append("\n".join(["```pycon", *code, "```"]))
        elif _SECTION.fullmatch(lines[0]):
            parts.append(_list(lines, link))
        elif all(line.startswith("    ") for line in lines):
            parts.append("\n".join(["```python", *(line[4:] for line in lines), "```"]))
        else:
            parts.append(_linked(paragraph, link))
    return "\n\n".join(parts)


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs; examples that follow each other are one."""
    found: list[str] = []
    for paragraph in re.split(r"\n{2,}", text.strip("\n")):
        if not paragraph.strip():
            continue
        if found and paragraph.startswith(">>> ") and found[-1].startswith(">>> "):
            found[-1] += f"\n{paragraph}"
        else:
            found.append(paragraph)
    return found


def _list(lines: list[str], link: Callable[[str], str | None]) -> str:
    """Return a section of Google's style, such as `Raises:`, as a heading and a list."""
    heading, *rest = lines
    items: list[str] = []
    for line in textwrap.dedent("\n".join(rest)).splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        else:
            items.append(line)
    texts = []
    for item in items:
        name, colon, what = item.partition(": ")
        texts.append(f"- `{name}`: {what}" if colon and re.fullmatch(r"[\w., ]+", name) else f"- {item}")
    return f"{heading}\n\n" + _linked("\n".join(texts), link)


def _linked(text: str, link: Callable[[str], str | None]) -> str:
    """Return a text with links for the names that are documented."""

    def replaced(found: re.Match[str]) -> str:
        target = link(found[1])
        return f"{{py:obj}}`{found[1]} <{target}>`" if target else found[0]

    return _NAME.sub(replaced, text).replace("$", r"\$")
