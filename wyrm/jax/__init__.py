"""Graphs and programs with JAX: pure functions for its transformations, files for other runtimes, several processes.

>>> x = wy.Input(dims=(2,), name="x")
>>> weight = wy.Parameter([1.0, 2.0], name="weight")
>>> function, parameters = wy.jax.lower((x * weight).sum(), inputs=[x])
>>> float(function(parameters, [3.0, 4.0]))
11.0
>>> import jax
>>> jax.grad(function)(parameters, [3.0, 4.0])["weight"].tolist()
[3.0, 4.0]

`wyrm.compile(..., engine="jax")` trains with JAX and needs none of these functions on one machine. On several,
`initialize` connects their processes, and `save` and `restore` keep checkpoints that all of them write. The functions
need the packages of `pip install "wyrm-autodiff[jax]"`.
"""

from wyrm.jax.checkpoints import gather, latest_step, restore, save
from wyrm.jax.distributed import initialize, part_of_process
from wyrm.jax.exporting import export, to_onnx
from wyrm.jax.lowering import LoweredFunction, lower

__all__ = [
    "LoweredFunction",
    "export",
    "gather",
    "initialize",
    "latest_step",
    "lower",
    "part_of_process",
    "restore",
    "save",
    "to_onnx",
]
