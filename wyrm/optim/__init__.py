"""Optimizers, averages of parameters, learning rate schedules, and gradient clipping.

>>> x = wy.Parameter([3.0])
>>> optimizer = wy.optim.SGD([x], learning_rate=wy.optim.Cosine(0.1, steps=100))
>>> x.square().sum().backward()
>>> optimizer.step()
>>> x.value.round(1)
array([2.4], dtype=float32)

- Elementwise rules: `SGD`, `Adam`, `AdamW`, `NAdam`, `RAdam`, `Adamax`, `Adagrad`, `Adadelta`, `RMSprop`, `Lion`.
- Rules over whole parameters: `LAMB`, `LARS`, `Adafactor`, `Muon`. `Combined` steps several optimizers together.
- Schedules in place of a learning rate: `Cosine`, `WarmupCosine`, `OneCycle`, `Step`, `Joined` and others.
- `StepOptions` lists what every optimizer takes: clipping of the gradient, bounds of the parameters, and an average of
  them (`EMA`, `SWA`). A group of parameters is a dict, such as `{"parameters": [...], "weight_decay": 0.0}`.
"""

from typing import TYPE_CHECKING

from wyrm.optim.adafactor import Adafactor
from wyrm.optim.adam_variants import Adamax, NAdam, RAdam
from wyrm.optim.adaptive import Adadelta, Adagrad, Adam, AdamW, RMSprop
from wyrm.optim.averaging import EMA, SWA
from wyrm.optim.clipping import clip_by_global_norm, clip_by_value
from wyrm.optim.combined import Combined
from wyrm.optim.descent import SGD, Lion
from wyrm.optim.layerwise import LAMB, LARS
from wyrm.optim.muon import Muon
from wyrm.optim.optimizer import Optimizer
from wyrm.optim.options import StepOptions
from wyrm.optim.schedules import (
    Cosine,
    CosineRestarts,
    Exponential,
    Joined,
    LinearWarmup,
    MultiStep,
    OneCycle,
    Piecewise,
    Polynomial,
    Step,
    WarmupCosine,
)
from wyrm.support import late_imports as _lazy_imports

if not TYPE_CHECKING:  # a module with `__getattr__` has every name, as far as the type checker can tell
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, {})

__all__ = [
    "EMA",
    "LAMB",
    "LARS",
    "SGD",
    "SWA",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Combined",
    "Cosine",
    "CosineRestarts",
    "Exponential",
    "Joined",
    "LinearWarmup",
    "Lion",
    "MultiStep",
    "Muon",
    "NAdam",
    "OneCycle",
    "Optimizer",
    "Piecewise",
    "Polynomial",
    "RAdam",
    "RMSprop",
    "Step",
    "StepOptions",
    "WarmupCosine",
    "clip_by_global_norm",
    "clip_by_value",
]
