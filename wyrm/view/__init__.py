"""Views of a graph: as text, beside its derivative, and in Graphviz's DOT language."""

from wyrm.view.derivation import to_derivation
from wyrm.view.text import to_dot, to_text

__all__ = ["to_derivation", "to_dot", "to_text"]
