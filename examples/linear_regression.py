# %% [markdown]
"""# Linear regression, one sample per step: recover y = 3 x + 5 from noisy samples.

The whole of wyrm in a page: parameters, inputs, a loss made of operators, and an optimizer that steps on its gradient.
"""

# %%
from __future__ import annotations

import numpy as np
from command_line import Progress, arguments, parser
from pictures import BLUE, GREY, ORANGE, Pictures, show

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--epochs", "10"].
ARGUMENTS: list[str] = []

# %%
options = parser(__doc__ or "", epochs=5, data=None).parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)

# %% [markdown]
# ## The data
# Two hundred points around a line that we pretend not to know.

# %%
SLOPE, INTERCEPT, NOISE = 3.0, 5.0, 0.1

random = np.random.default_rng(options.seed)
xs = random.uniform(-1.0, 1.0, 200)
ys = SLOPE * xs + INTERCEPT + random.normal(0.0, NOISE, xs.shape)

# %% [markdown]
# ## The model
# Operators on parameters and inputs build a graph, without computing anything. The loss is that of one sample. In a
# notebook, a graph displays itself.

# %%
slope, intercept = wy.Parameter(1.0, name="slope"), wy.Parameter(0.0, name="intercept")
x, y = wy.Input(name="x"), wy.Input(name="y")
loss = (y - (slope * x + intercept)).square()
show(loss)

# %% [markdown]
# ## Training
# `compile` makes one program of the loss, its gradient and the optimizer's step. `epoch` is one call of it, and does a
# step for each sample, in random order.

# %%
train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1), engine=options.engine)
before = (float(slope), float(intercept))
progress = Progress(options.epochs)
for _ in progress:
    progress.show(loss=train.epoch({x: xs, y: ys}, shuffle=True, seed=options.seed))
after = (float(slope), float(intercept))
print(f"y = {after[0]:.3f} x + {after[1]:.3f}, the data follow y = {SLOPE} x + {INTERCEPT}")

# %% [markdown]
# ## What it found
# The line before training, and the one after it, which lies on the one that made the data.

# %%
if pictures:
    pictures.curves("Linear regression", progress.history, {"loss": "mean squared error"})
    with pictures.draw("line") as figure:
        axes = figure.subplots()
        axes.plot(xs, ys, ".", color=GREY, markersize=5, label="samples")
        ends = np.array([-1.05, 1.05])
        for (a, b), colour, name in zip((before, after), (ORANGE, BLUE), ("before", "after"), strict=True):
            axes.plot(ends, a * ends + b, color=colour, label=f"{name} training: y = {a:.2f} x + {b:.2f}")
        axes.set(xlabel="x", ylabel="y", title=f"A line through {len(xs)} samples of y = {SLOPE:g} x + {INTERCEPT:g}")
        axes.legend(loc="upper left")
