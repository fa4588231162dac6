"""Rosenbrock's valley by L-BFGS of SciPy, which takes `value_and_grad` as it is, and a picture of the way down."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import wyrm as wy


@wy.function(engine="native")
def rosenbrock(x: Any) -> Any:
    """The function of Rosenbrock (1960), of any number of dimensions; its least value, 0, is where all are 1."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0)


def descend(start: Any) -> tuple[Any, list[Any]]:
    """SciPy's answer, and the points on the way."""
    points = [np.array(start)]
    answer = minimize(
        rosenbrock.value_and_grad(), start, method="L-BFGS-B", jac=True, callback=lambda x: points.append(x.copy())
    )
    return answer, points


def draw(points: list[Any], path: Path) -> None:
    """The first two coordinates of the points over the valley of two dimensions."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = np.meshgrid(np.linspace(-1.8, 1.8, 200), np.linspace(-0.8, 3.0, 200))
    figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
    heights = np.log10(1e-3 + 100.0 * (y - x**2) ** 2 + (1.0 - x) ** 2)
    contours = axes.contourf(x, y, heights, levels=20, cmap="viridis")
    figure.colorbar(contours, label="log10 of the value")
    way = np.array(points)
    axes.plot(way[:, 0], way[:, 1], "o-", color="white", markersize=3, linewidth=1)
    axes.plot(1.0, 1.0, "*", color="red", markersize=12)
    axes.set(xlabel="x", ylabel="y", title=f"{len(points) - 1} steps of L-BFGS", xlim=(-1.8, 1.8), ylim=(-0.8, 3.0))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Go down in two dimensions, draw it, and go down in many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimensions", type=int, default=100, help="of the second descent")
    parser.add_argument("--figure", type=Path, default=Path("rosenbrock.png"), help="where the picture goes")
    options = parser.parse_args()
    if options.dimensions < 2:
        parser.error("--dimensions is at least 2")
    options.figure.parent.mkdir(parents=True, exist_ok=True)
    _, points = descend(np.array([-1.3, 2.0]))
    draw(points, options.figure)
    answer, points = descend(np.zeros(options.dimensions))
    farthest = float(np.abs(answer.x - 1.0).max())
    print(
        f"{options.dimensions} dimensions: {answer.nfev} calls, value {answer.fun:.2e}, off by at most {farthest:.1e}"
    )
    print(f"the way down in two dimensions: {options.figure}")


if __name__ == "__main__":
    main()
