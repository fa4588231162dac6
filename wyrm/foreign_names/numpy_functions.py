"""NumPy functions that do not accept nodes, each with what to use instead."""

# ruff: noqa: E501  # one line for names and their answer
from __future__ import annotations

from wyrm.foreign_names.phrases import (
    CLONE,
    IMMUTABLE,
    MASKED,
    NO_ALGEBRA,
    NO_ARCS,
    NO_CUMULATION,
    NO_ROUNDING,
    NO_SORTING,
    REPEAT,
    each,
)

# NumPy functions that do not accept nodes.
ANSWERS = each(
    {
        "cholesky inv solve det slogdet eig eigh eigvals eigvalsh svd svdvals qr pinv lstsq matrix_rank matrix_power cond": (
            NO_ALGEBRA
        ),
        "cumsum cumprod cumulative_sum cumulative_prod nancumsum": NO_CUMULATION,
        "sort argsort partition argpartition median percentile quantile searchsorted unique nonzero argwhere lexsort digitize": (
            NO_SORTING
        ),
        "argmin": "use np.argmax(-x, axis)",
        "round around rint floor ceil trunc fix": NO_ROUNDING,
        "arccos arcsin arctan arctan2 arccosh arcsinh arctanh acos asin atan atan2 acosh asinh atanh": NO_ARCS,
        "isnan": "use x != x",
        "isfinite": "use abs(x) < np.inf",
        "isinf": "use abs(x) == np.inf",
        "nan_to_num": "use wy.where(x == x, x, 0.0)",
        "nansum": "use wy.where(x == x, x, 0.0).sum(axis)",
        "nanmean nanmax nanmin nanstd nanvar": "use x == x, a mask that is false at NaN, and wy.where(mask, x, 0.0)",
        "vstack hstack column_stack dstack append block": "use np.concatenate([x, y], axis=0) or np.stack([x, y])",
        "inner vdot tensordot kron trace cross diag diagonal": "use np.einsum(subscripts, x, y) or x @ y",
        "tril triu": MASKED,
        "average": "use np.mean(x, axis)",
        "moveaxis rollaxis permute_dims": "use np.transpose(x, axes)",
        "matrix_transpose": "use x.mT",
        "atleast_1d atleast_2d atleast_3d": "use np.reshape(x, shape)",
        "floor_divide remainder mod fmod divmod": NO_ROUNDING,
        "tile repeat resize": REPEAT,
        "flip fliplr flipud": "use x[::-1]",
        "roll": "use np.concatenate([x[-n:], x[:-n]])",
        "rot90": "use x.T[::-1]",
        "pad": "use np.concatenate with wy.zeros(shape)",
        "diff ediff1d gradient": "use x[1:] - x[:-1]",
        "ptp": "use np.max(x, axis) - np.min(x, axis)",
        "any": "use mask.astype(np.float32).max(axis)",
        "all": "use mask.astype(np.float32).min(axis)",
        "array_equal allclose isclose": "compare arrays: np.allclose(x.forward(), expected)",
        "count_nonzero": "use (x != 0.0).astype(np.float32).sum(axis)",
        "copy": CLONE,
        "empty_like": "use np.zeros_like(x)",
        "hsplit vsplit array_split dsplit unstack": "use np.split(x, sections, axis)",
        "cov corrcoef histogram bincount interp convolve correlate trapezoid polyfit polyval": (
            "wyrm has no such function: compute it with NumPy on x.forward()"
        ),
        "hypot": "use np.sqrt(x * x + y * y)",
        "logaddexp2": "use np.logaddexp(x, y)",
        "cbrt": "use np.sign(x) * np.abs(x) ** (1.0 / 3.0)",
        "deg2rad radians": "use x * (np.pi / 180.0)",
        "rad2deg degrees": "use x * (180.0 / np.pi)",
        "fmax": "use np.maximum(x, y)",
        "fmin": "use np.minimum(x, y)",
        "heaviside": "use (x > 0.0).astype(np.float32)",
        "sinc": "use np.sin(np.pi * x) / (np.pi * x)",
        "signbit": "use x < 0.0",
        "logical_xor bitwise_xor": "use mask != other",
        "put place copyto put_along_axis": IMMUTABLE,
        "select choose piecewise": "use np.where(mask, x, y)",
        "fft ifft rfft irfft": "wyrm has no Fourier transforms",
    }
)
