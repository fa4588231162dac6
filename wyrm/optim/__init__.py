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

from wyrm.support import late_imports as _lazy_imports

if TYPE_CHECKING:
    from wyrm.optim.adaptive import Adadelta as Adadelta
    from wyrm.optim.adaptive import Adafactor as Adafactor
    from wyrm.optim.adaptive import Adagrad as Adagrad
    from wyrm.optim.adaptive import RMSprop as RMSprop
    from wyrm.optim.averaging import EMA as EMA
    from wyrm.optim.averaging import SWA as SWA
    from wyrm.optim.clipping import clip_by_global_norm as clip_by_global_norm
    from wyrm.optim.clipping import clip_by_value as clip_by_value
    from wyrm.optim.combined import Combined as Combined
    from wyrm.optim.descent import LARS as LARS
    from wyrm.optim.descent import SGD as SGD
    from wyrm.optim.descent import Lion as Lion
    from wyrm.optim.descent import Muon as Muon
    from wyrm.optim.moments import LAMB as LAMB
    from wyrm.optim.moments import Adam as Adam
    from wyrm.optim.moments import Adamax as Adamax
    from wyrm.optim.moments import AdamW as AdamW
    from wyrm.optim.moments import NAdam as NAdam
    from wyrm.optim.moments import RAdam as RAdam
    from wyrm.optim.optimizer import Optimizer as Optimizer
    from wyrm.optim.options import StepOptions as StepOptions
    from wyrm.optim.schedules import Cosine as Cosine
    from wyrm.optim.schedules import CosineRestarts as CosineRestarts
    from wyrm.optim.schedules import Exponential as Exponential
    from wyrm.optim.schedules import Joined as Joined
    from wyrm.optim.schedules import LinearWarmup as LinearWarmup
    from wyrm.optim.schedules import MultiStep as MultiStep
    from wyrm.optim.schedules import OneCycle as OneCycle
    from wyrm.optim.schedules import Piecewise as Piecewise
    from wyrm.optim.schedules import Polynomial as Polynomial
    from wyrm.optim.schedules import Step as Step
    from wyrm.optim.schedules import WarmupCosine as WarmupCosine
else:  # a module with `__getattr__` has every name, as far as the type checker can tell
    _MODULES = {
        "adaptive": "Adadelta Adafactor Adagrad RMSprop",
        "averaging": "EMA SWA",
        "clipping": "clip_by_global_norm clip_by_value",
        "combined": "Combined",
        "descent": "LARS Lion Muon SGD",
        "moments": "Adam AdamW Adamax LAMB NAdam RAdam",
        "optimizer": "Optimizer",
        "options": "StepOptions",
        "schedules": "Cosine CosineRestarts Exponential Joined LinearWarmup MultiStep OneCycle Piecewise Polynomial "
        "Step WarmupCosine",
    }
    _ORIGINS = {name: module for module, names in _MODULES.items() for name in names.split()}
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, _ORIGINS)
    __all__ = sorted(_ORIGINS)
