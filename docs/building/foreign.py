"""The directive `foreign-names`: names of other libraries and what to use instead, from the tables of errors."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from wyrm.support.foreign_names import calls, objects, packages
from wyrm.support.foreign_names import nodes as of_nodes

# The tables, by the word that a page gives.
TABLES: dict[str, dict[str, str]] = {
    "nodes": of_nodes.ANSWERS,
    "modules": objects.MODULE,
    "optimizers": objects.OPTIMIZER,
    "programs": objects.PROGRAM,
    "keywords": calls.ANSWERS,
    **{name: dict(answers) for name, answers in packages.ANSWERS.items()},
}


class ForeignNames(SphinxDirective):
    """A table of the names in its text, each line `table: names`."""

    has_content = True
    required_arguments = 0
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the table; a name that has no answer is an error of the build."""
        rows = ["| there | here |", "| --- | --- |"]
        for line in self.content:
            table, _, names = line.partition(":")
            for name in names.split():
                answer = TABLES[table.strip()][name].replace("|", "\\|")
                rows.append(f"| `{name}{'=' if table.strip() == 'keywords' else ''}` | {answer} |")
        node = nodes.Element()
        self.state.nested_parse(StringList(rows, "foreign-names"), self.content_offset, node)
        return list(node.children)
