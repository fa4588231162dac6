"""Seeing a graph: as text, and as Graphviz's language."""

from wyrm.view.text import to_dot, to_text

__all__ = ["to_dot", "to_text"]
