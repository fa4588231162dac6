"""Shows graphs: as text, as an HTML page, side by side with their gradient, or for Graphviz; and models as tables.

>>> x = wy.Parameter([1.0, 2.0], name="x")
>>> print(wy.view.to_text(x.square().sum()))  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
x = parameter (2,) float32 ...

Notebooks display nodes, programs, modules, tuples of axes, summaries, derivations and shardings by themselves.
"""

from wyrm.view.derivation import Derivation, to_derivation
from wyrm.view.html import open, page
from wyrm.view.model_summary import LayerSummary, Summary, summary
from wyrm.view.notebook import to_dot, to_text

__all__ = ["Derivation", "LayerSummary", "Summary", "open", "page", "summary", "to_derivation", "to_dot", "to_text"]
