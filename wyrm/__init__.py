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

# What is no public name has an underscore: language servers complete `wy.` by every name of this file.
import builtins as _builtins
import itertools as _itertools
import sys as _sys
import typing as _typing

from wyrm import _names, errors
from wyrm.engines.numpy import Timing, run, time_ops, watch_nan
from wyrm.errors import WyrmError
from wyrm.graph import (
    ZERO,
    Buffer,
    Constant,
    Dim,
    IndexConstant,
    IndexInput,
    IndexNode,
    IndexTensor,
    Input,
    Node,
    One,
    Parameter,
    Plus,
    Shaped,
    Tensor,
    Times,
    Undefined,
    any_dim,
)
from wyrm.graph.jax_form import JAX, JaxForm
from wyrm.graph.loop_form import LOOPS, LoopForm
from wyrm.graph.registration import bind as _bind
from wyrm.ops.composed import Composed
from wyrm.ops.control.updating import updating
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Binary, Elementwise, Unary
from wyrm.ops.gradients import grad, value_and_grad
from wyrm.ops.indexing.joining import concatenate, stack
from wyrm.support.imports import lazy_imports as _lazy_imports

if _typing.TYPE_CHECKING:
    from wyrm import data, io, linalg, losses, metrics, nn, optim, profile, random, special, testing, train, view, watch
    from wyrm import jax as jax  # not in `__all__`, because `import *` must not hide the packages jax and numba
    from wyrm import numba as numba
    from wyrm._names import *  # noqa: F403  # a generated table
    from wyrm._names import abs as abs  # the names of builtins are not in `*`
    from wyrm._names import all as all
    from wyrm._names import any as any
    from wyrm._names import divmod as divmod
    from wyrm._names import max as max
    from wyrm._names import min as min
    from wyrm._names import pow as pow
    from wyrm._names import round as round
    from wyrm._names import sum as sum
    from wyrm.data.recommending import recommend
    from wyrm.exporting.exported import export
    from wyrm.ops.attention.attention import attention
    from wyrm.ops.attention.dot_product_attention import scaled_dot_product_attention
    from wyrm.ops.control.checkpoint import checkpoint
    from wyrm.ops.cross_entropy.linear_cross_entropy import linear_cross_entropy
    from wyrm.train.compiling import compile
    from wyrm.train.program import Program
    from wyrm.view.derivation import show
    from wyrm.view.model_summary import summary

if not _typing.TYPE_CHECKING:  # for type checkers a module with `__getattr__` has every name
    # Imported on first use: subpackages, and names by the module that defines them.
    _ROOMS = "data engines io jax linalg losses metrics nn numba optim profile random special testing train view watch"
    __getattr__, __dir__, _ = _lazy_imports(
        __name__,
        {
            **dict.fromkeys(_ROOMS.split(), ""),
            **_names.FUNCTIONS,
            "data.recommending": "recommend",
            "exporting.exported": "export",
            "ops.attention.attention": "attention",
            "ops.control.checkpoint": "checkpoint",
            "ops.attention.dot_product_attention": "scaled_dot_product_attention",
            "ops.cross_entropy.linear_cross_entropy": "linear_cross_entropy",
            "train.compiling": "compile",
            "train.program": "Program",
            "view.derivation": "show",
            "view.model_summary": "summary",
        },
    )


_bind(_names.METHODS)

__version__ = "0.1.0"

__all__ = [
    "JAX",
    "LOOPS",
    "ZERO",
    "Binary",
    "Buffer",
    "Composed",
    "Constant",
    "Dim",
    "Elementwise",
    "IndexConstant",
    "IndexInput",
    "IndexNode",
    "IndexTensor",
    "Input",
    "JaxForm",
    "LoopForm",
    "Node",
    "One",
    "Parameter",
    "Plus",
    "Program",
    "Shaped",
    "Tensor",
    "Times",
    "Timing",
    "Unary",
    "Undefined",
    "WyrmError",
    "any_dim",
    "attention",
    "checkpoint",
    "compile",
    "concatenate",
    "data",
    "errors",
    "export",
    "grad",
    "io",
    "linalg",
    "linear_cross_entropy",
    "losses",
    "metrics",
    "nn",
    "optim",
    "profile",
    "random",
    "recommend",
    "run",
    "scaled_dot_product_attention",
    "show",
    "special",
    "stack",
    "summary",
    "testing",
    "time_ops",
    "train",
    "updating",
    "value_and_grad",
    "view",
    "watch",
    "watch_nan",
    "where",
]

if _typing.TYPE_CHECKING:  # a form that pyright reads
    __all__ += _names.__all__
else:
    # The builtins keep their names after `from wyrm import *`.
    __all__ = sorted({*__all__, *_itertools.chain(*_names.FUNCTIONS.values())} - set(dir(_builtins)) | {"compile"})

    # The shell of a notebook, if wyrm is imported in one.
    _shell = getattr(_sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if _shell is not None:
        from wyrm.graph.text import show_axes_as_tables

        # `import wyrm` does not import `wyrm.view`.
        show_axes_as_tables(_shell, lambda dims: __getattr__("view").notebook.of_dims(dims))
