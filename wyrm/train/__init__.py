"""The programs that `wyrm.compile` returns, and how they run over data; `fit` and its callbacks.

>>> slope, x = wy.Parameter(0.0), wy.Input(name="x")
>>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], learning_rate=0.1))
>>> stopping = wy.train.EarlyStopping(patience=2)
>>> history = wy.train.fit(program, {"x": np.ones(100)}, epochs=5, callbacks=[stopping])
>>> round(float(slope), 3)
1.0

- `fit` trains for several epochs, with validation, and returns a `History` of every value.
- Callbacks: `EarlyStopping`, `ReduceOnPlateau`, `Checkpoint`, `CSVLogger`, `TensorBoardLogger`, `ProgressBar`, and
  `Callback` and `LambdaCallback` for your own.

`program` is `wy.Program`, `compiling` is `wy.compile`, and `fitting` the loop over epochs. What computes is an engine:
see `wy.engines`.
"""

from typing import TYPE_CHECKING

from wyrm.support import late_imports as _lazy_imports

if TYPE_CHECKING:
    from wyrm.train.callbacks import Callback, LambdaCallback, ProgressBar, Run
    from wyrm.train.checkpointing import Checkpoint
    from wyrm.train.fitting import fit
    from wyrm.train.history import EpochRecord, History
    from wyrm.train.loggers import CSVLogger, TensorBoardLogger
    from wyrm.train.monitoring import EarlyStopping, Monitor, ReduceOnPlateau

# The public names of each file, which is imported on first use.
_NAMES = {
    "callbacks": ("Callback", "LambdaCallback", "ProgressBar", "Run"),
    "checkpointing": ("Checkpoint",),
    "fitting": ("fit",),
    "history": ("EpochRecord", "History"),
    "loggers": ("CSVLogger", "TensorBoardLogger"),
    "monitoring": ("EarlyStopping", "Monitor", "ReduceOnPlateau"),
}

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name
    __getattr__, __dir__ = _lazy_imports.lazy_imports(
        __name__, {name: module for module, names in _NAMES.items() for name in names}
    )

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "EpochRecord",
    "History",
    "LambdaCallback",
    "Monitor",
    "ProgressBar",
    "ReduceOnPlateau",
    "Run",
    "TensorBoardLogger",
    "fit",
]
