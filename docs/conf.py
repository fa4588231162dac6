"""The site, by Sphinx: `python -m sphinx -W docs site`."""

from __future__ import annotations

import html
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from building import write_pages  # noqa: E402  # found by the path above
from building.foreign import ForeignNames  # noqa: E402
from building.glossary import Glossary  # noqa: E402
from building.texts import description, linked  # noqa: E402

with (DOCS.parent / "pyproject.toml").open("rb") as file:
    _PROJECT = tomllib.load(file)["project"]
_REPOSITORY = _PROJECT["urls"]["Repository"]

project, author, release = "wyrm", _PROJECT["authors"][0]["name"], _PROJECT["version"]
copyright = f"{author}, MIT license"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["building", "recorded"]
source_suffix = {".md": "markdown"}
nitpick_ignore_regex = [("py:.*", ".*")]  # types of signatures that are no names of wyrm

myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 3
myst_substitutions = {"repository": _REPOSITORY}
python_maximum_signature_line_length = 88
smartquotes = False  # options of commands begin with two hyphens
toc_object_entries_show_parents = "hide"
add_module_names = True
copybutton_exclude = ".linenos, .gp, .go"
linkcheck_ignore = [re.escape(_PROJECT["urls"]["Documentation"]) + ".*", re.escape(_REPOSITORY) + ".*"]

html_theme = "furo"
html_title = f"wyrm {release}"
html_baseurl = _PROJECT["urls"]["Documentation"] + "/"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
html_js_files = ["site.js"]
html_favicon = "static/icon.svg"


def _links_into_the_repository(app: Any, name: str, source: list[str]) -> None:
    source[0] = linked(source[0], _REPOSITORY)


def _describe(app: Any, name: str, template: str, context: dict[str, Any], page: Any) -> None:
    text = "" if page is None else description(page)
    if text:
        context["metatags"] = f'{context.get("metatags", "")}<meta name="description" content="{html.escape(text)}">\n'


def setup(app: Any) -> None:
    """Write what is generated before Sphinx looks for files."""
    app.add_directive("foreign-names", ForeignNames)
    app.add_directive("glossary-of-wyrm", Glossary)
    app.connect("config-inited", lambda *_: write_pages(DOCS))
    app.connect("source-read", _links_into_the_repository)
    app.connect("html-page-context", _describe)
