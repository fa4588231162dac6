"""The directive `foreign-names`: names of other libraries and what to use instead, from the answers of errors."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from wyrm.support.foreign_names import answers


class ForeignNames(SphinxDirective):
    """A table of the names in its text, each line `place: names`."""

    has_content = True
    required_arguments = 0
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the table; a name that has no answer is an error of the build."""
        rows = ["| there | here |", "| --- | --- |"]
        for line in self.content:
            place, _, names = line.partition(":")
            for name in names.split():
                answer = answers(place.strip())[name].replace("|", "\\|")
                rows.append(f"| `{name}{'=' if place.strip() == 'keywords' else ''}` | {answer} |")
        node = nodes.Element()
        self.state.nested_parse(StringList(rows, "foreign-names"), self.content_offset, node)
        return list(node.children)
