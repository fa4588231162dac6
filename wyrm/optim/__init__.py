"""Optimizers, averages of parameters, learning rate schedules, and gradient clipping.

>>> x = wy.Parameter([3.0])
>>> optimizer = wy.optim.SGD([x], learning_rate=wy.optim.Cosine(0.1, steps=100))
>>> x.square().sum().backward()
>>> optimizer.step()
>>> x.value.round(1)
array([2.4], dtype=float32)

- Elementwise rules: `SGD`, `Adam`, `AdamW`, `NAdam`, `RAdam`, `Adamax`, `Adagrad`, `Adadelta`, `RMSprop`, `Lion`,
  `FTRL`, and `SAGA` for losses that are `remembered`.
- Rules over whole parameters: `LAMB`, `LARS`, `Adafactor`, `Muon`. `Combined` steps several optimizers together.
- Schedules in place of a learning rate: `Cosine`, `WarmupCosine`, `OneCycle`, `Step`, `Joined` and others.
- `StepOptions` lists what every optimizer takes: clipping of the gradient, bounds of the parameters, and an average of
  them (`EMA`, `SWA`). A `ParameterGroup` is a dict, such as `{"parameters": [...], "weight_decay": 0.0}`.
- An optimizer of your own derives from `Optimizer`, with `with_options`, `option`, `Rate` and `blend`.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "adaptive": "FTRL Adadelta Adafactor Adagrad RMSprop",
        "clipping": "clip_by_global_norm clip_by_value",
        "combined": "Combined",
        "descent": "LARS SGD Lion Muon",
        "moments": "LAMB Adam Adamax AdamW NAdam RAdam",
        "optimizer": "Optimizer Rate",
        "options": "EMA SWA ParameterGroup StepOptions option with_options",
        "rule": "Update Values blend",
        "saga": "SAGA remembered",
        "schedules": (
            "Cosine CosineRestarts Exponential Joined LinearWarmup MultiStep OneCycle Piecewise Polynomial Step "
            "WarmupCosine"
        ),
    },
)
