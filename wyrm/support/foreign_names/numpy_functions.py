"""NumPy functions that do not accept nodes, each with what to use instead."""

# ruff: noqa: E501  # one line for names and their answer
from __future__ import annotations

from wyrm.support.foreign_names.phrases import CLONE, DATA_DEPENDENT, IMMUTABLE, NO_FOURIER, ON_VALUES, each

ANSWERS = each(
    {
        "eig eigvals": "wyrm has no complex numbers: use wy.linalg.eigh or wy.linalg.eigvalsh for a symmetric matrix",
        "matrix_rank": "use np.linalg.matrix_rank(x.forward()), or count the singular values, (wy.linalg.svdvals(x) > 1e-6).sum()",
        "tensorinv tensorsolve": "use x.reshape(shape) and wy.linalg.inv or wy.linalg.solve",
        "unique unique_all unique_counts unique_inverse unique_values nonzero flatnonzero argwhere intersect1d union1d setdiff1d setxor1d delete insert trim_zeros": (
            DATA_DEPENDENT
        ),
        "lexsort sort_complex": "use np.argsort(x, axis)",
        "around": "use np.round(x, decimals)",
        "isin": "use (x[..., None] == y).any(-1)",
        "nancumsum": "use np.cumsum(wy.where(np.isnan(x), 0.0, x), axis)",
        "nancumprod": "use np.cumprod(wy.where(np.isnan(x), 1.0, x), axis)",
        "nanargmax": "use np.argmax(wy.where(np.isnan(x), -np.inf, x), axis)",
        "nanargmin": "use np.argmin(wy.where(np.isnan(x), np.inf, x), axis)",
        "nanmedian nanpercentile nanquantile": ON_VALUES,
        "resize": "use np.tile(x, repeats) and x.reshape(shape)",
        "copy": CLONE,
        "empty_like": "use np.zeros_like(x)",
        "histogram2d histogramdd histogram_bin_edges polyfit unwrap frexp ldexp nextafter spacing gcd lcm": ON_VALUES,
        "polyval": "use wy.vander(x, n) @ coefficients",
        "put place copyto put_along_axis putmask fill_diagonal": IMMUTABLE,
        "choose": "use np.where(mask, x, y), or wy.stack([x, y])[i] for a number i",
        "piecewise": "use np.select(masks, [f(x), g(x)])",
        "apply_along_axis apply_over_axes": "use wy.vmap(f)",
        "ix_": "use x[rows[:, None], columns]",
        "save savez savetxt savez_compressed": "use np.save(path, x.forward())",
        "fft ifft rfft irfft fft2 ifft2 fftn ifftn rfft2 irfft2 hfft ihfft fftshift ifftshift": NO_FOURIER,
    }
)
