"""Automatic differentiation on a statically typed node graph, with training compiled to native code.

>>> x = wy.Parameter([1.0, 2.0], name="x")
>>> loss = (x * x).sum()
>>> loss.forward()
array(5., dtype=float32)
>>> wy.grad(loss, x).forward()  # the gradient is a graph too
array([2., 4.], dtype=float32)

A `Node` describes one operation. `Node.forward` computes its value with NumPy and caches it; `Node.backward` adds to
`Parameter.gradient`. `compile` turns a graph, its gradient, an optimizer and the loop over the data into native code.
`function` traces a Python function over arrays into a graph. A node is no function: it gets data by `Input.set(array)`,
and a program in its calls, as in `compile(loss)({x: array})`.

## Glossary

**For users**

- *node*: one operation with its operands (`Node.parents`); a *leaf* (`Parameter`, `Input`, `Constant`, `Buffer`) holds
  an array. An `IndexNode` holds integers that select rows or elements.
- *dims*: the axes of a node. An axis is a number or a `Dim`: its class is the axis's name, its instance the size. An
  *open* axis takes its size from the data of each run.
- *parameter*: a leaf that an optimizer changes. *buffer*: a leaf that a model saves and no optimizer changes. A number
  that changes between runs, such as a temperature, is an `Input` without axes.
- *weak*: computed from Python numbers, masks, integers and random numbers alone. Nobody chose the float type of such a
  node, and it takes that of the floats that it meets (see `Constant`).
- *random node* (`random`): numbers that are a function of the seed, the step, the node's *stream* and the position. It
  draws anew in each step; `random.at_step` repeats one.
- *row-sparse*: a gradient that stores only the rows of a table that were selected.
- *program*: the result of `compile` (`Program`): native code for outputs, or for a whole training loop.
- *callback* (`train.Callback`): what `train.fit` calls after each epoch, such as `train.EarlyStopping`. *metric*: a
  scalar that a program returns beside the loss, averaged over the rows of an epoch. *run*: a training that is recorded
  in a folder, for `python -m wyrm watch` to show.
- *group*: parameters with options of their own in one optimizer. *average* (`optim.EMA`): a second copy of the
  parameters, which follows them step by step.
- *column*: the data of one input for a whole epoch, one row a sample. *mode*: `"hogwild"` threads update shared
  parameters without locks; `"synchronized"` threads add up the gradients of parts of one batch.

- *profile* (`Program.profile`): where the time of a program's steps goes. *Roofline*: the most operations a second that
  the machine can do for the bytes that they move.
- *engine*: what runs a program: "native", machine code for this processor, or "jax", XLA for JAX's devices. *mesh*: the
  devices as an array with named axes. *sharding*: which axes of arrays, by their classes, are divided over which of
  the mesh. *FSDP* divides parameters over the axis that the batch is divided over.

**For contributors**

- *op*: a class of nodes: `shape_rule`, `dtype_rule`, `vjp`, and a `formula` or `evaluate`. A *composed* op is a graph
  of other ops (`Composed`), from which all of these follow; with a kernel, which equals it, it is *fused*.
- *formula*: an elementwise op as text; every engine derives its code from it.
- *loop form* (`LoopForm`): the native compiler's description of an op: `decompose` into simpler ops, a function of
  each element's *flat index*, a *reducer* over the *reduce axes*, a *gather index map* (where in the operand each
  element of the result comes from), a *scatter index map* (where in the result each element of an operand goes), or a
  *kernel* (a loop written in a subset of Python). `graph.loop_form` has a class for each of these kinds.
- *JAX form* (`JaxForm`): how an op lowers to JAX where neither its formula nor its `evaluate` can be traced.
- *residuals*: results of a forward pass that its backward pass reads.
- *placeholder*: an input in the body of a loop, in place of a value of each step. *Closure conversion* makes the
  values that a body reads from outside into operands of the loop.
- *pytree*: nested lists, tuples, dicts, dataclasses and modules of arrays; a `PyTreeDef` is its structure.
- *optimization barrier*: a copy that keeps recomputation (`checkpoint`) apart from the first computation.
- *schedule*: nodes in execution order, each operation once. *Differentiate*, *decompose*,
  *deduplicate*, *fuse*, *materialize* and *write* are the compiler's stages; see `Program.stages`.
- *array buffer*: memory that generated code reads or writes; *arguments* bind arrays to buffers for given sizes.
- *source location*: the user's file and line that built a node.
"""

import builtins as _builtins
import sys as _sys

import wyrm.engines.numpy as _numpy  # noqa: F401  # the engine of `forward`
from wyrm import _names
from wyrm.graph.registration import bind as _bind
from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "": (
            "data errors estimators io linalg losses metrics nn optim profile random reach special testing train view "
            "watch"
        ),
        # Not in `__all__`, because `import *` must not hide the packages jax and numba.
        "engines": "",
        "jax": "",
        "numba": "",
        "data.recommending": "recommend",
        "engines.numpy": "Timing run time_ops watch_nan",
        "errors": "WyrmError",
        "exporting.exported": "export",
        "functions.branches": "cond switch",
        "functions.contraction": "einsum",
        "functions.creation": (
            "arange full full_like geomspace indices linspace logspace meshgrid one_hot ones ones_like zeros zeros_like"
        ),
        "functions.custom": "custom_jvp custom_vjp",
        "functions.kernels": "Kernel Written kernel",
        "functions.differences": "cumulative_prod cumulative_sum diff ediff1d gradient interp trapezoid",
        "functions.elementwise": (
            "allclose angle array_equal conj conjugate deg2rad degrees divmod float_power imag isclose iscomplex "
            "isneginf isposinf isreal logical_and logical_not logical_or logical_xor nan_to_num positive pow power "
            "rad2deg radians real real_if_close reciprocal select sinc"
        ),
        "functions.function": "Function function",
        "functions.joining": (
            "append array_split atleast_1d atleast_2d atleast_3d block column_stack concat dsplit dstack hsplit "
            "hstack unstack vsplit vstack"
        ),
        "functions.loops": "scan while_loop",
        "functions.mapping": "vmap",
        "functions.matrices": (
            "cross diag diagflat dot eye identity inner kron matmul outer tensordot tri tril triu vander vdot vecdot"
        ),
        "functions.methods": [name for name in _names.FUNCTIONS if "." not in name],
        "functions.order_statistics": (
            "argpartition bincount convolve corrcoef correlate cov digitize histogram median partition percentile "
            "quantile searchsorted top_k"
        ),
        "functions.ragged": (
            "entry_at entry_positions entry_rows first_entry last_entry row_lengths row_pairs row_scan row_segment_sum"
        ),
        "functions.rearranging": (
            "compress extract flip fliplr flipud moveaxis pad permute_dims roll rollaxis rot90 tile"
        ),
        "functions.reductions": (
            "average count_nonzero nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum "
            "nanvar ptp segment_max segment_mean segment_min segment_softmax segment_sum"
        ),
        "functions.transforms": "hessian hvp jacobian jvp linearize vjp",
        "graph": (
            "Buffer Constant Dim IndexConstant IndexInput IndexNode IndexTensor Input Joined NarrowWeight Node One "
            "Pairs Parameter Plus RaggedArray Ragged Shaped Tensor Times Undefined ZERO any_dim"
        ),
        "graph.jax_form": "JAX JaxForm",
        "graph.loop_form": "LOOPS LoopForm",
        "ops.attention.attention": "attention",
        "ops.attention.dot_product_attention": "scaled_dot_product_attention",
        "ops.composed": "Composed",
        "ops.control.checkpoint": "checkpoint",
        "ops.control.updating": "updating",
        "ops.cross_entropy.linear_cross_entropy": "linear_cross_entropy",
        "ops.elementwise.comparison": "where",
        "ops.elementwise.elementwise": "Binary Elementwise Unary",
        "ops.gradients": "grad value_and_grad",
        "ops.indexing.joining": "concatenate stack",
        "reach.claims": "Causal Independent prove",
        "reach.rules": "REACH Reach",
        "train.compiling": "compile",
        "train.program": "Program",
        "view.derivation": "show",
        "view.model_summary": "summary",
    },
)
# The builtins keep their names after `from wyrm import *`.
__all__ = sorted({*__all__} - {*dir(_builtins)} | {"compile"})

_bind(_names.METHODS)

__version__ = "0.1.0"

# The shell of a notebook, if wyrm is imported in one.
_shell = getattr(_sys.modules.get("IPython"), "get_ipython", lambda: None)()
if _shell is not None:
    from wyrm.graph.text import show_axes_as_tables

    # `import wyrm` does not import `wyrm.view`.
    show_axes_as_tables(_shell, lambda dims: __getattr__("view").notebook.of_dims(dims))
