"""Seeing a graph: as text, as a derivation, and as Graphviz's language."""

from wyrm.view.derivation import to_derivation
from wyrm.view.text import to_dot, to_text

__all__ = ["to_derivation", "to_dot", "to_text"]
