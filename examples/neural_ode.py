# %% [markdown]
"""# A neural differential equation: learn the motion of predators and prey from a few of their paths.

The speed of a state is a small network (Chen et al., "Neural ordinary differential equations", 2018). `solve`, ten
lines with `wy.scan`, follows it by the Runge-Kutta method of order 4, for any number of paths at once; gradients go
through all steps. The data are paths of the equation of Lotka and Volterra, which SciPy solves. At the end, the learnt
motion continues paths that were not trained on, and SciPy solves the learnt equation too: both solvers agree.
"""

# %%
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from command_line import Progress, arguments, parser, positive
from numpy.typing import NDArray
from pictures import BLUE, GREY, ORANGE, Pictures
from scipy.integrate import solve_ivp

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--epochs", "20"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=400, data=None)
options_parser.add_argument("--paths", type=positive, default=32, help="paths to train on")
options = options_parser.parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The data
# Paths of prey and predators from random starts, at 21 times.

# %%
STEP, STEPS = 0.1, 20
Array = NDArray[np.float64]


def lotka_volterra(_: float, state: Array) -> Array:
    prey, predators = state
    return np.array([prey * (1.5 - predators), predators * (prey - 1.0)])


def solved(motion: Callable[[float, Array], Array], start: Array, steps: int) -> Array:
    """Return the states from a start, found by SciPy: (steps + 1, 2)."""
    times = np.linspace(0.0, STEP * steps, steps + 1)
    found = solve_ivp(motion, (0.0, times[-1]), start, t_eval=times, rtol=1e-10, atol=1e-10)
    states: Array = found.y.T
    return states


random = np.random.default_rng(options.seed)
paths = np.array([solved(lotka_volterra, start, STEPS) for start in random.uniform(0.5, 2.0, (options.paths, 2))])
new_paths = np.array([solved(lotka_volterra, start, 2 * STEPS) for start in random.uniform(0.5, 2.0, (8, 2))])

# %% [markdown]
# ## The solver
# `scan` carries the states of all paths, and stacks those after each step.


# %%
class Paths(wy.Dim): ...


class Kinds(wy.Dim): ...


States = wy.Tensor[Paths, Kinds]


def solve(motion: Callable[[States], States], start: States, steps: int, step: float = STEP) -> Any:
    """Return the states after each step by the Runge-Kutta method of order 4: (steps, paths, kinds)."""

    def advance(state: States, _: None) -> tuple[States, States]:
        first = motion(state)
        second = motion(state + 0.5 * step * first)
        third = motion(state + 0.5 * step * second)
        fourth = motion(state + step * third)
        state = state + step / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
        return state, state

    return wy.scan(advance, start, length=steps)[1]


# %% [markdown]
# ## The model
# A network of one hidden layer gives the speed. The loss compares the states after each step with the data.

# %%
network = wy.nn.Linear(Kinds(2), 32, dtype=np.float64) >> wy.nn.tanh >> wy.nn.Linear(32, Kinds(2), dtype=np.float64)
start = wy.Input(dims=(Paths(), Kinds(2)), name="start", dtype=np.float64)
after = wy.Input(dims=(Paths(), STEPS, Kinds(2)), name="after", dtype=np.float64)
loss = (solve(network, start, STEPS) - after.transpose(1, 0, 2)).square().mean()

train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-2), engine=options.engine)
columns = {start: paths[:, 0], after: paths[:, 1:]}
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = train.epoch(columns, batch_size=min(8, options.paths), shuffle=True, seed=options.seed)
    progress.show(loss=mean_loss)

# %% [markdown]
# ## What it learnt
# New paths, for twice the time of those that it was trained on. SciPy solves the learnt equation as a check.

# %%
speed = wy.compile(network(start))
found = wy.compile(solve(network, start, 2 * STEPS))({start: new_paths[:, 0]}).transpose(1, 0, 2)
error = np.sqrt(((found - new_paths[:, 1:]) ** 2).mean())
checked = np.array([solved(lambda _, state: speed({start: state[None]})[0], path[0], 2 * STEPS) for path in new_paths])
print(f"error on new paths {error:.3f}, of states with a spread of {new_paths.std():.2f}")
print(f"difference to SciPy {np.abs(found - checked[:, 1:]).max():.1e}")

# %%
if pictures:
    pictures.curves("Predators and prey", progress.history, {"loss": "mean squared error"})
    with pictures.draw("paths") as figure:
        axes = figure.subplots()
        for path, own in zip(new_paths[:4], found, strict=False):
            axes.plot(*path.T, color=GREY, linewidth=4, label="the equation")
            axes.plot(*np.vstack([path[:1], own]).T, color=BLUE, label="learnt")
            axes.plot(*path[0], "o", color=ORANGE, label="start")
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[:3], labels[:3], loc="upper right")
        axes.set(xlabel="prey", ylabel="predators", title="Paths that were not trained on")
