"""Graphs and programs with JAX: pure functions for its transformations, and files for other runtimes.

>>> x = wy.Input(dims=(2,), name="x")
>>> weight = wy.Parameter([1.0, 2.0], name="weight")
>>> function, parameters = wy.jax.lower((x * weight).sum(), inputs=[x])
>>> float(function(parameters, [3.0, 4.0]))
11.0
>>> import jax
>>> jax.grad(function)(parameters, [3.0, 4.0])["weight"].tolist()
[3.0, 4.0]

`wyrm.compile(..., engine="jax")` trains with JAX and needs none of these functions. They need the packages of
`pip install "wyrm-autodiff[jax]"`.
"""

from wyrm.jax.exporting import export, to_onnx
from wyrm.jax.lowering import LoweredFunction, lower

__all__ = ["LoweredFunction", "export", "lower", "to_onnx"]
