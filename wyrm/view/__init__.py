"""Shows graphs: as text, as an HTML page, side by side with their gradient, or for Graphviz; and models as tables.

>>> x = wy.Parameter([1.0, 2.0], name="x")
>>> print(wy.view.to_text(x.square().sum()))  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
x = parameter (2,) float32 ...

Notebooks display nodes, programs, modules, tuples of axes, summaries, derivations and shardings by themselves.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "derivation": "Derivation to_derivation",
        "html": "open page",
        "model_summary": "LayerSummary Summary summary",
        "notebook": "to_dot to_text",
    },
)
