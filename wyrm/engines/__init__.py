"""The engines that run graphs, and what they share: data, the order of rows, positions in an epoch, progress.

`wyrm.compile(..., engine=name)` takes the engines "native" and "jax" of wyrm, and others by the names that `register`
gives them, or that installed packages have in their entry points of the group "wyrm.engines":

    [project.entry-points."wyrm.engines"]
    mine = "my_package.engine:MyEngine"

An engine is a subclass of `Engine`, whose module says all that it must know: `wyrm.engines.engine`.

>>> wy.engines.names()[:2]
['native', 'jax']
"""

from typing import TYPE_CHECKING

from wyrm.support import late_imports

if TYPE_CHECKING:
    from wyrm.engines.columns import Columns
    from wyrm.engines.engine import Engine
    from wyrm.engines.epochs import Epoch, EpochOptions
    from wyrm.engines.graph import ProgramGraph
    from wyrm.engines.registry import names, register

__all__ = ["Columns", "Engine", "Epoch", "EpochOptions", "ProgramGraph", "names", "register"]

if not TYPE_CHECKING:  # for type checkers a module with `__getattr__` has every name
    __getattr__, __dir__ = late_imports.lazy_imports(
        __name__,
        {
            "Columns": "columns",
            "Engine": "engine",
            "Epoch": "epochs",
            "EpochOptions": "epochs",
            "ProgramGraph": "graph",
            "names": "registry",
            "register": "registry",
        },
    )
