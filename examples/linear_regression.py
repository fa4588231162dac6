"""Linear regression, one sample per step: recover y = 3 x + 5 from noisy samples."""

from __future__ import annotations

import numpy as np
from command_line import parser, train

import wyrm as wy

SLOPE, INTERCEPT, NOISE = 3.0, 5.0, 0.1


def main() -> None:
    """Train, and print the fitted line."""
    options = parser(__doc__ or "", epochs=5, data=None).parse_args()
    random = np.random.default_rng(options.seed)
    xs = random.uniform(-1.0, 1.0, 200)
    ys = SLOPE * xs + INTERCEPT + random.normal(0.0, NOISE, xs.shape)

    slope, intercept = wy.Parameter(1.0, name="slope"), wy.Parameter(0.0, name="intercept")
    x, y = wy.Input(name="x"), wy.Input(name="y")
    loss = (y - (slope * x + intercept)).square()
    optimizer = wy.optim.SGD(loss.parameters(), learning_rate=0.1)

    train(loss, optimizer, {x: xs, y: ys}, options)
    print(f"y = {float(slope):.3f} x + {float(intercept):.3f}, the data follow y = {SLOPE} x + {INTERCEPT}")


if __name__ == "__main__":
    main()
