"""Minimize Rosenbrock's function with SciPy's L-BFGS, which takes `value_and_grad` directly."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import wyrm as wy


@wy.function(engine="native")
def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function (1960) in any number of dimensions; its minimum is 0, at all ones."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0)


def descend(start: Any) -> tuple[Any, list[Any]]:
    """Return SciPy's result, and the points of all iterations."""
    points = [np.array(start)]
    answer = minimize(
        rosenbrock.value_and_grad(), start, method="L-BFGS-B", jac=True, callback=lambda x: points.append(x.copy())
    )
    return answer, points


def draw(points: list[Any], path: Path) -> None:
    """Plot the first two coordinates of the points over contours of the two-dimensional function."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = np.meshgrid(np.linspace(-1.8, 1.8, 200), np.linspace(-0.8, 3.0, 200))
    figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
    heights = np.log10(1e-3 + 100.0 * (y - x**2) ** 2 + (1.0 - x) ** 2)
    contours = axes.contourf(x, y, heights, levels=20, cmap="viridis")
    figure.colorbar(contours, label="log10 of the value")
    track = np.array(points)
    axes.plot(track[:, 0], track[:, 1], "o-", color="white", markersize=3, linewidth=1)
    axes.plot(1.0, 1.0, "*", color="red", markersize=12)
    axes.set(xlabel="x", ylabel="y", title=f"{len(points) - 1} steps of L-BFGS", xlim=(-1.8, 1.8), ylim=(-0.8, 3.0))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Minimize in many dimensions and, for a plot of the path, in two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimensions", type=int, default=100, help="dimensions of the second run")
    parser.add_argument("--figure", type=Path, help="plot the path in two dimensions to this file; needs matplotlib")
    options = parser.parse_args()
    if options.dimensions < 2:
        parser.error("--dimensions must be at least 2")
    answer, _ = descend(np.zeros(options.dimensions))
    farthest = float(np.abs(answer.x - 1.0).max())
    print(
        f"{options.dimensions} dimensions: {answer.nfev} calls, value {answer.fun:.2e}, off by at most {farthest:.1e}"
    )
    if options.figure is not None:
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        _, points = descend(np.array([-1.3, 2.0]))
        draw(points, options.figure)
        print(f"the path in two dimensions: {options.figure}")


if __name__ == "__main__":
    main()
