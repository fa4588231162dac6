# %% [markdown]
"""# Minimize Rosenbrock's function with SciPy's L-BFGS, which takes `value_and_grad` directly."""

# %%
from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from command_line import arguments
from pictures import Pictures, add_pictures
from scipy.optimize import minimize

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--dimensions", "30"].
ARGUMENTS: list[str] = []

# %%
parser = argparse.ArgumentParser(description=(__doc__ or "").removeprefix("# "))
parser.add_argument("--dimensions", type=int, default=100, help="dimensions of the function")
add_pictures(parser)
options = parser.parse_args(arguments(ARGUMENTS))
if options.dimensions < 2:
    parser.error("--dimensions must be at least 2")
pictures = Pictures(options.pictures)

# %% [markdown]
# ## The function
# `wy.function` traces a function of NumPy once, and compiles it and its gradient to native code.


# %%
@wy.function(engine="native")
def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function (1960) in any number of dimensions; its minimum is 0, at all ones."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0)


# %% [markdown]
# ## The descent
# SciPy's minimizers take a function that returns a value and a gradient: `jac=True` says so.


# %%
def descend(start: Any) -> tuple[Any, list[Any]]:
    """Return SciPy's result, and the points of all iterations."""
    points = [np.array(start)]
    answer = minimize(
        rosenbrock.value_and_grad(), start, method="L-BFGS-B", jac=True, callback=lambda x: points.append(x.copy())
    )
    return answer, points


answer, points = descend(np.zeros(options.dimensions))
farthest = float(np.abs(answer.x - 1.0).max())
print(f"{options.dimensions} dimensions: {answer.nfev} calls, value {answer.fun:.2e}, off by at most {farthest:.1e}")

# %% [markdown]
# ## The way down
# The first picture shows the value at each iteration. The second one shows a descent in two dimensions, through the
# valley along y = x² to the minimum at (1, 1).

# %%
if pictures:
    with pictures.draw("values") as figure:
        axes = figure.subplots()
        axes.semilogy([rosenbrock(point) for point in points])
        axes.set(xlabel="iteration", ylabel="value of the function")
        axes.set_title(f"Rosenbrock's function in {options.dimensions} dimensions, minimized by L-BFGS")

    with pictures.draw("descent", height=5.0) as figure:
        _, points = descend(np.array([-1.3, 2.0]))
        x, y = np.meshgrid(np.linspace(-1.8, 1.8, 200), np.linspace(-0.8, 3.0, 200))
        heights = np.log10(1e-3 + 100.0 * (y - x**2) ** 2 + (1.0 - x) ** 2)
        axes = figure.subplots()
        contours = axes.contourf(x, y, heights, levels=np.linspace(-3.0, 3.5, 14), cmap="Blues_r")
        figure.colorbar(contours, label="log10 of the value", ticks=range(-3, 4))
        track = np.array(points)
        axes.plot(track[:, 0], track[:, 1], "o-", color="#d55e00", markersize=4, linewidth=1.2)
        axes.plot(1.0, 1.0, "*", color="black", markersize=13)
        for text, point in (("start", track[0]), ("minimum", (1.0, 1.0))):
            axes.annotate(text, point, (8, 6), textcoords="offset points", weight="bold")
        axes.set(xlabel="x", ylabel="y", xlim=(-1.8, 1.8), ylim=(-0.8, 3.0))
        axes.set_title(f"{len(points) - 1} iterations of L-BFGS in two dimensions")
