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

## A plan for many devices

`python -m bench.sharding_plan` computes what a step needs on each device from the table that `print(program.sharding)`
shows. For GPT-2 with 6.66 billion parameters, `checkpoint=True`, `compute_dtype="bfloat16"` and Adam, on 64 H100 with
a network of 400 Gbit/s each, under FSDP, `{Batch: "data", Embed: "data"}`, with 8 sequences of 2,048 tokens on each:

    parameters                          420 MB
    gradients                           420 MB
    optimizer state                     840 MB
    activations                         42.2 GB
    gathered parameters, two at a time  1.65 GB
    all bytes of a device               45.6 GB of 80 GB
    all-gathers a step                  648, 52.4 GB
    reduce-scatters a step              324, 26.2 GB
    time of collectives                 1.57 s
    time of matrix products             0.92 s
    time of a step                      2.49 s, 1.57 s with overlap
    utilization with overlap            44%
    utilization without overlap         28%

The links limit this step. The 64 GPUs are 8 machines, within which NVLink moves 450 GB/s: with the mesh
`make_hybrid_mesh({"slice": 8}, {"data": 8})` and `{Batch: ("slice", "data"), Embed: "data"}`, parameters are divided
within machines alone, and products limit the step:

    parameters                          3.33 GB
    gradients                           3.33 GB
    optimizer state                     6.67 GB
    activations                         42.2 GB
    gathered parameters, two at a time  1.65 GB
    all bytes of a device               57.2 GB of 80 GB
    all-gathers a step                  648, 46.6 GB
    reduce-scatters a step              324, 23.3 GB
    reduced between slices              5.83 GB
    time of collectives                 0.27 s
    time of matrix products             0.92 s
    time of a step                      1.19 s, 0.92 s with overlap
    utilization with overlap            75%
    utilization without overlap         58%

Collectives are counted with the dtype of the parameters, float32. On 8 simulated devices and for one layer, the bytes
of parameters and optimizer state, and the arguments of the step, are those of the plan; all-gathers are within 10 % of
it and temporary memory within 25 %; what 2 simulated slices of 4 exchange is within 1 %. In a loop of equal layers, XLA
gathers some weights once more for what a checkpoint computes again: 31 % more bytes for two layers. XLA for CPUs
reduces gradients to all devices; for GPUs it scatters them.

For a recommender of 10 million users and 990 million items with vectors of 64 numbers and Adagrad, by rows,
`{Users: "data", Items: "data", Batch: "data"}`, with 4,096 pairs of a user and an item and a negative on each
of the same GPUs, where a small collective takes 20 us:

    tables                   4 GB
    state of the tables      4 GB
    both of a device         8 GB of 80 GB
    all-to-alls a step       10, 9.85 MB
    time of their bytes      197 us
    time of their latency    200 us
    time of memory           8 us
    time of a step           405 us, 397 us with overlap
    time of sums by columns  124 us
    examples a second        660 million

On 8 simulated devices, the bytes of all collectives are within 1 % of this plan's.
"""

from wyrm.jax.checkpoints import gather, latest_step, restore, save
from wyrm.jax.distributed import initialize, part_of_process
from wyrm.jax.exporting import export
from wyrm.jax.lowering import LoweredFunction, lower
from wyrm.jax.meshes import make_hybrid_mesh
from wyrm.jax.onnx import to_onnx
from wyrm.jax.orbax_folders import wait

__all__ = [
    "LoweredFunction",
    "export",
    "gather",
    "initialize",
    "latest_step",
    "lower",
    "make_hybrid_mesh",
    "part_of_process",
    "restore",
    "save",
    "to_onnx",
    "wait",
]
