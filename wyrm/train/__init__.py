"""The programs that `wyrm.compile` returns, and `fit`, which trains them, with its callbacks.

>>> slope, x = wy.Parameter(0.0), wy.Input(name="x")
>>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], learning_rate=0.1))
>>> stopping = wy.train.EarlyStopping(patience=2)
>>> history = wy.train.fit(program, {"x": np.ones(100)}, epochs=5, callbacks=[stopping])
>>> round(float(slope), 3)
1.0

- `fit` trains for several epochs, with validation, and returns a `History` of every value.
- Callbacks: `EarlyStopping`, `ReduceOnPlateau`, `Checkpoint`, `CSVLogger`, `TensorBoardLogger`, `ProgressBar`, and
  `Callback` and `LambdaCallback` for your own.

`program` is `wy.Program`, `compiling` is `wy.compile`, and `fitting` the loop over epochs. Engines do the computing:
see `wy.engines`.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "monitoring": "Checkpoint EarlyStopping Monitor ReduceOnPlateau",
        "callbacks": "CSVLogger Callback EpochRecord History LambdaCallback ProgressBar Run TensorBoardLogger",
        "fitting": "fit",
    },
)
