"""Texts of pages that other places need: links into the repository, and what a search engine shows of a page."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

# About what a search engine shows of a description.
_DESCRIPTION = 155


def linked(text: str, repository: str) -> str:
    """Let links to files that are not part of the site go to the repository.

    >>> linked("[results](../bench/results), [all](../benchmarks.md)", "https://example.org")
    '[results](https://example.org/tree/main/bench/results), [all](../benchmarks.md)'
    """
    return re.sub(r"\]\(\.\./(bench|examples|\.github|wyrm)(?=[/)])", rf"]({repository}/tree/main/\1", text)


def description(page: Any) -> str:
    """Return the beginning of the first paragraph of a page; empty without one."""
    first = next(page.findall(nodes.paragraph), None)
    words = "" if first is None else " ".join(first.astext().split())
    return words if len(words) <= _DESCRIPTION else words[: _DESCRIPTION - 1].rpartition(" ")[0] + " …"
