"""The pages of the reference, as `docs/building` writes them for Sphinx, which the tests do not run."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from tests.site.pages import DOCS

if str(DOCS) not in sys.path:
    sys.path.append(str(DOCS))


def building(name: str) -> Any:
    """Return a module of `docs/building`."""
    return import_module(f"building.{name}")


def contents() -> list[str]:
    """Return the names of the pages."""
    from building.contents import CONTENTS

    return [page.file for page in CONTENTS]


@cache
def reference() -> Any:
    """Return the pages with their names, and the Markdown of each."""
    from building.reference import Reference

    return Reference()


@cache
def texts() -> dict[str, str]:
    """Return the Markdown of each page, by its name."""
    from building.contents import CONTENTS

    return {page.file: reference().text(page) for page in CONTENTS}
