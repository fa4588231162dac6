"""Functions that ONNX does not have, from those that it has, without the digits that simple formulas lose."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.engines.jax.namespace import JaxNamespace

# Coefficients of Chebyshev polynomials of 4 t - 2 for log(erfc(z) exp(z ** 2) / t), where t is 2 / (2 + z): computed
# with 40 digits. The first twelve suffice for float32.
_ERFC = (
    -1.3026537197817094, 0.64196979235649026, 0.019476473204185836, -0.0095615147868086316, -0.00094659534448203687,
    0.00036683949785276145, 4.2523324806907772e-5, -2.0278578112534243e-5, -1.6242900046470255e-6,
    1.3036558355805232e-6, 1.5626441722066143e-8, -8.5238095914926543e-8, 6.5290544390988515e-9,
    5.0593434955514689e-9, -9.9136415649303309e-10, -2.2736512229318359e-10, 9.6467911020155268e-11,
    2.3940380830391147e-12, -6.8860275264975534e-12, 8.9448792730907257e-13, 3.1309213993429581e-13,
    -1.1270822361367252e-13, 3.8109052551892321e-16, 7.106097613609237e-15, -1.5230282014571043e-15,
    -9.457494571291234e-17, 1.210237189224279e-16, -2.816663087747177e-17,
)  # fmt: skip


def erfc(x: Any) -> Any:
    """Return the complementary error function, exact relative to itself: `1 - erf(x)` is 0 from 4 on in float32."""
    import jax.numpy as jnp

    size = jnp.abs(x)
    t = 2.0 / (2.0 + size)
    y, last, before = 4.0 * t - 2.0, t * 0.0, t * 0.0
    coefficients = _ERFC[: 12 if x.dtype == np.float32 else len(_ERFC)]
    for coefficient in coefficients[:0:-1]:  # Clenshaw's recurrence
        last, before = y * last - before + coefficient, last
    tail = t * jnp.exp(0.5 * (coefficients[0] + y * last) - before - size * size)
    return jnp.where(x < 0.0, 2.0 - tail, tail)


def log1p(x: Any) -> Any:
    """Return `log(1 + x)`, exact for small x (Higham, "Accuracy and stability of numerical algorithms", 2002)."""
    import jax.numpy as jnp

    above = 1.0 + x
    is_lost = (above == 1.0) | (above == jnp.inf)
    rounded = jnp.where(is_lost, 1.0, above - 1.0)
    return jnp.where(above == 1.0, x, jnp.log(above) * jnp.where(is_lost, 1.0, x / rounded))


def expm1(x: Any) -> Any:
    """Return `exp(x) - 1`, exact for small x (Kahan's formula; see Higham, 2002)."""
    import jax.numpy as jnp

    power = jnp.exp(x)
    is_near = (power != 1.0) & (jnp.abs(x) < 1.0)
    logarithm = jnp.where(is_near, jnp.log(jnp.where(is_near, power, 2.0)), 1.0)
    return jnp.where(power == 1.0, x, (power - 1.0) * jnp.where(is_near, x / logarithm, 1.0))


_FUNCTIONS = {"erfc": erfc, "expm1": expm1, "log1p": log1p}


class OnnxNamespace(JaxNamespace):
    """The functions of `jax.numpy`, with those of this module in place of JAX's."""

    def __getattr__(self, name: str) -> Any:
        return _FUNCTIONS.get(name) or super().__getattr__(name)
