"""The engines that run graphs, and what they share: data, the order of rows, positions in an epoch, progress.

`wyrm.compile(..., engine=name)` takes the engines "native" and "jax" of wyrm, and others by the names that `register`
gives them, or that installed packages have in their entry points of the group "wyrm.engines":

    [project.entry-points."wyrm.engines"]
    mine = "my_package.engine:MyEngine"

An engine is a subclass of `Engine`, whose module says all that it must know: `wyrm.engines.engine`. `SimpleEngine`
does all but the computation of values.

>>> wy.engines.names()[:2]
['native', 'jax']
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "columns": "Columns",
        "engine": "Engine",
        "epochs": "Epoch EpochOptions",
        "graph": "ProgramGraph",
        "registry": "names register",
        "simple": "SimpleEngine by_numpy",
    },
)
