"""Attributes of tensors and arrays in other libraries, each with what to use instead."""

# ruff: noqa: E501  # one line for names and their answer
from __future__ import annotations

from wyrm.foreign_names.phrases import (
    CLONE,
    CPU,
    IMMUTABLE,
    INTEGERS,
    LEAVES,
    MASKED,
    NO_ALGEBRA,
    NO_ARCS,
    NO_CUMULATION,
    NO_HOOKS,
    NO_ROUNDING,
    NO_SORTING,
    NONE_BUT_FLOATS,
    REPEAT,
    each,
)

_OF_NODES = each(
    {
        "permute movedim moveaxis": "use x.transpose(axes)",
        "unsqueeze": "use x.expand_dims(axis)",
        "t H": "use x.T",
        "mH adjoint": "use x.mT",
        "view view_as reshape_as unflatten": "use x.reshape(shape)",
        "numel nelement": "use x.size",
        "dim ndimension rank": "use x.ndim",
        "get_shape": "use x.shape",
        "detach": "use x.stop_gradient()",
        "data": "use x.value",
        "set assign update": "only leaves hold data that is set: make it a wy.Input, wy.Parameter or wy.Buffer",
        "item": "use x.forward().item()",
        "tolist": "use x.forward().tolist()",
        "numpy eval compute to_numpy": "use x.forward(), which computes the array, or x.value for the last computed array",
        "grad": "use p.gradient after loss.backward(), or wy.grad(loss, x)",
        "zero_grad": "use x.zero_gradient() for all parameters of x, or p.clear_gradient()",
        "requires_grad requires_grad_": LEAVES,
        "grad_fn": "use x.parents",
        "retain_grad retain_graph register_hook register_post_accumulate_grad_hook": NO_HOOKS,
        "cpu cuda to device get_device is_cuda to_device pin_memory share_memory_": CPU,
        "contiguous is_contiguous stride strides storage block_until_ready": "nodes have no memory of their own: leave it out",
        "clone copy": CLONE,
        "float": "use x.astype(np.float32)",
        "double": "use x.astype(np.float64)",
        "half bfloat16": NONE_BUT_FLOATS,
        "int long short": INTEGERS,
        "bool": "use x != 0.0",
        "type type_as": "use x.astype(dtype)",
        "add sub subtract mul multiply div divide true_divide neg negative pow power matmul mm bmm mv dot": (
            "use the operators: x + y, x - y, x * y, x / y, -x, x ** y and x @ y"
        ),
        "eq ne lt le gt ge greater less logical_and logical_or logical_not": (
            "use the operators: x == y, x != y, x < y, x <= y, x > y, x >= y, and of masks &, | and ~"
        ),
        "iadd isub imul": IMMUTABLE,
        "clamp": "use x.clip(min, max)",
        "expand expand_as": "use x.broadcast_to(shape)",
        "repeat tile repeat_interleave": REPEAT,
        "cat concatenate": "use wy.concatenate([x, y], axis=0)",
        "stack": "use wy.stack([x, y], axis=0)",
        "chunk": "use x.split(sections, axis)",
        "unbind": "use list(x), the list of rows",
        "narrow": "use x[start:stop]",
        "select": "use x[row]",
        "index_select": "use x.take(indices, axis)",
        "gather": "use x.take_along_axis(indices, axis)",
        "masked_fill": "use wy.where(mask, value, x)",
        "where": "use wy.where(mask, x, other)",
        "masked_select nonzero unique compress": "wyrm has no node whose shape depends on the data: use NumPy on x.forward()",
        "scatter index_add index_put put at": "use x.scatter_add(rows, values), or wy.where(mask, value, x)",
        "argmin": "use (-x).argmax(axis)",
        "amax": "use x.max(axis)",
        "amin": "use x.min(axis)",
        "norm": "use x.square().sum(axis).sqrt(), or np.linalg.norm(x)",
        "nansum": "use wy.where(x == x, x, 0.0).sum(axis)",
        "cumsum cumprod": NO_CUMULATION,
        "sort argsort topk median quantile kthvalue mode searchsorted": NO_SORTING,
        "any": "use mask.astype(np.float32).max(axis)",
        "all": "use mask.astype(np.float32).min(axis)",
        "isnan": "use x != x",
        "isfinite": "use abs(x) < np.inf",
        "isinf": "use abs(x) == np.inf",
        "round floor ceil trunc frac": NO_ROUNDING,
        "exp2 log2 log10 sinh cosh logaddexp tan": "use NumPy's function of that name, which takes nodes, as in np.exp2(x)",
        "arccos acos arcsin asin arctan atan arctan2 atan2 arccosh acosh arcsinh asinh arctanh atanh": NO_ARCS,
        "rsqrt": "use 1.0 / x.sqrt()",
        "reciprocal": "use 1.0 / x",
        "logsigmoid": "use -(-x).softplus()",
        "swish": "use x.silu()",
        "absolute": "use x.abs()",
        "logit": "use (x / (1.0 - x)).log()",
        "erfc": "use 1.0 - x.erf()",
        "erfinv lgamma digamma": "wyrm has no such function: write an op of your own, as in wy.Unary",
        "addmm": "use x + a @ b",
        "lerp": "use x + weight * (y - x)",
        "outer": "use np.outer(x, y)",
        "diff": "use x[1:] - x[:-1]",
        "ptp": "use x.max(axis) - x.min(axis)",
        "flip": "use x[::-1]",
        "roll": "use wy.concatenate([x[-n:], x[:-n]], axis=0)",
        "tril triu": MASKED,
        "diagonal diag trace": "use np.einsum, or multiply by wy.Constant(np.eye(n)) and sum",
        "unfold": "use slices and wy.stack",
        "inverse det logdet svd qr cholesky": NO_ALGEBRA,
        "real imag conj": "wyrm has no complex numbers",
        "new_zeros new_ones new_full new_tensor": "use wy.zeros(shape), wy.ones(shape) or wy.full(shape, value)",
        "fill nbytes itemsize dump tofile": "nodes hold no array: use x.forward()",
        "is_floating_point": "use x.dtype.kind == 'f'",
        "bernoulli multinomial": "use wy.random.index, or x.dropout(rate)",
    }
)
OF_INTEGERS = (
    "index nodes only have slices, comparisons and reshape: use a wy.Input for numbers to compute with, or NumPy on "
    "x.forward()"
)
# A tensor's methods that work in place, each refused in the same words.
_IN_PLACE = (
    "add_ sub_ mul_ div_ pow_ neg_ copy_ fill_ zero_ clamp_ clip_ exp_ log_ sqrt_ abs_ relu_ sigmoid_ tanh_ normal_ uniform_ "
    "squeeze_ unsqueeze_ transpose_ scatter_ scatter_add_ index_add_ masked_fill_ detach_"
)
ANSWERS = _OF_NODES | each({_IN_PLACE: IMMUTABLE})
