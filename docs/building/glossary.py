"""The directive `glossary-of-wyrm`: the glossary of the package's docstring."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

import wyrm as wy
from building.reference import Reference


class Glossary(SphinxDirective):
    """The glossary in `help(wyrm)`."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the lists, with links for names."""
        from building.docstrings import markdown_of

        reference = Reference()
        text = markdown_of(
            (wy.__doc__ or "").partition("## Glossary")[2], lambda name: reference.link("wyrm", "", name)
        )
        node = nodes.Element()
        self.state.nested_parse(StringList(text.splitlines(), "glossary"), self.content_offset, node)
        return list(node.children)
