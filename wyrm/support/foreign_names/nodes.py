"""Attributes of tensors and arrays in other libraries, each with what to use instead.

The other tables of such names share the answers at the top and the functions that build a table.
"""

from __future__ import annotations

from collections.abc import Mapping

# ruff: noqa: E501  # one line for names and their answer


def each(answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers by name; each key of `answers` holds several names, separated by spaces."""
    return {name: answer for names, answer in answers.items() for name in names.split()}


def same(package: str, names: str) -> dict[str, str]:
    """Return the answer "use wy.package.name(x)" for each name of `names`, separated by spaces."""
    return {name: f"use wy.{package}{name}(x)" for name in names.split()}


CPU = "native code computes on the CPU; for other devices use wy.compile(..., engine='jax')"
NO_HOOKS = "wyrm has no hooks: use wy.grad(loss, x) for the gradient of any node"
IMMUTABLE = "nodes are immutable: use x = x + y and the like, or p.set(array) to change a parameter"
CLONE = "nodes are immutable and need no copy: leave it out"
LEAVES = (
    "use wy.Parameter(value) for trained values, wy.Constant(value) for fixed ones, and wy.Input(dims=dims) for data"
)
GRADIENT_MODE = "leave it out: a gradient is computed only where wy.grad or backward asks for it"
NONE_BUT_FLOATS = "wyrm has float32 and float64: use x.astype(np.float32)"
INTEGERS = "use wy.IndexInput or wy.IndexConstant for integers, which select rows"
RANDOM = "use wy.random, as in wy.random.normal((2, 3)), which draws anew in each step"
FIT = "compile the loss, then use wy.train.fit(program, {x: column}, epochs=10, batch_size=32)"
DATA_DEPENDENT = "wyrm has no node whose shape depends on the data: use NumPy on x.forward()"
ON_VALUES = "wyrm has no such function: compute it with NumPy on x.forward()"
NO_FOURIER = "wyrm has no Fourier transforms and no complex numbers: compute it with NumPy on x.forward()"


_OF_NODES = {
    **same(
        "",
        "floor ceil trunc fix rint isnan isfinite isinf median average ptp nansum nanmean nanmax nanmin nanvar nanstd nanmedian "
        "exp2 log2 log10 tan sinh cosh arcsin arccos arctan arcsinh arccosh arctanh asin acos atan asinh acosh atanh "
        "cbrt reciprocal deg2rad rad2deg signbit sinc diff flipud fliplr rot90 tril triu diag nan_to_num count_nonzero",
    ),
    **same("linalg.", "cholesky inv det slogdet svd qr pinv eig eigh norm"),
    **same("special.", "logit erfc erfinv gammaln digamma expit i0 i0e i1 i1e ndtr ndtri entr log_ndtr"),
    **each(
        {
            "permute": "use x.transpose(axes)",
            "movedim moveaxis": "use wy.moveaxis(x, source, destination)",
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
            "run execute call": "use x.forward(), or wy.compile(x)({input: array})",
            "fit train epoch": FIT,
            "compile": "use wy.compile(x)",
            "gradient": "only a wy.Parameter holds one, p.gradient after loss.backward(); use wy.grad(loss, x) for any node",
            "index": "use x[indices] or x.take(indices, axis); of a wy.Parameter, p.index(rows) has a row-sparse gradient",
            "one_hot": "only integers have classes: use wy.one_hot(indices, num_classes) of a wy.IndexInput",
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
            "add sub subtract mul multiply div divide true_divide neg negative pow power matmul mm bmm mv": (
                "use the operators: x + y, x - y, x * y, x / y, -x, x ** y and x @ y"
            ),
            "dot": "use x @ y, or x.vector_dot(y) for the product of each row with its row",
            "eq ne lt le gt ge greater less logical_and logical_or logical_not logical_xor": (
                "use the operators: x == y, x != y, x < y, x <= y, x > y, x >= y, and of masks &, |, ^ and ~"
            ),
            "remainder mod fmod floor_divide": "use the operators: x % y and x // y, or wy.fmod(x, y)",
            "iadd isub imul": IMMUTABLE,
            "clamp": "use x.clip(min, max)",
            "expand expand_as": "use x.broadcast_to(shape)",
            "tile": "use wy.tile(x, repeats)",
            "repeat_interleave": "use x.repeat(repeats, axis)",
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
            "masked_select nonzero argwhere unique": DATA_DEPENDENT,
            "compress": "use wy.compress(condition, x)",
            "scatter index_put put": "use x.at[rows].set(values), or wy.where(mask, value, x)",
            "index_add scatter_reduce": "use x.scatter_add(rows, values), or x.at[rows].add(values)",
            "amax": "use x.max(axis)",
            "amin": "use x.min(axis)",
            "logcumsumexp mode bincount histc": ON_VALUES,
            "topk": "use x.argsort(axis) and the last k of it: x.take_along_axis(x.argsort(axis)[:, -k:], axis)",
            "kthvalue": "use x.sort(axis)[k - 1]",
            "quantile percentile": "use wy.quantile(x, q, axis)",
            "searchsorted bucketize": "use wy.searchsorted(a, x)",
            "partition argpartition": "use wy.partition(x, kth) or wy.argpartition(x, kth)",
            "frac": "use x - wy.trunc(x)",
            "hypot arctan2 atan2 fmax fmin logaddexp logaddexp2 heaviside copysign": (
                "use the function of that name, as in wy.hypot(x, y)"
            ),
            "outer inner vdot cross kron tensordot": "use the function of that name, as in wy.outer(x, y)",
            "rsqrt": "use 1.0 / x.sqrt()",
            "logsigmoid": "use x.log_sigmoid()",
            "swish": "use x.silu()",
            "absolute": "use x.abs()",
            "lgamma": "use wy.special.gammaln(x)",
            "addmm": "use x + a @ b",
            "lerp": "use x + weight * (y - x)",
            "flip": "use wy.flip(x, axis), or x[::-1]",
            "roll": "use wy.roll(x, shift, axis)",
            "unfold": "use slices and wy.stack",
            "inverse": "use wy.linalg.inv(x)",
            "logdet": "use wy.linalg.slogdet(x)",
            "solve lstsq": "use wy.linalg.solve(x, b) or wy.linalg.lstsq(x, b)",
            "matrix_power": "use wy.linalg.matrix_power(x, n)",
            "fft stft": NO_FOURIER,
            "real imag conj": "use wy.real(x), wy.imag(x) or wy.conj(x); nodes are real",
            "new_zeros new_ones new_full new_tensor": "use wy.zeros(shape), wy.ones(shape) or wy.full(shape, value)",
            "fill nbytes itemsize dump tofile": "nodes hold no array: use x.forward()",
            "is_floating_point": "use x.dtype.kind == 'f'",
            "bernoulli": "use wy.random.bernoulli(x.shape, x)",
            "multinomial": "use wy.random.categorical(x.log())",
        }
    ),
}
# Names of classes that make parameters elsewhere, beside `Parameter.zeros`.
PARAMETER = each(
    {
        "ones full eye": "use the array, as in wy.Parameter(np.ones((2, 3)))",
        "normal randn": "use wy.nn.initializers, or wy.Parameter(np.random.default_rng(0).normal(size=(2, 3)))",
        "uniform rand": "use wy.nn.initializers, or wy.Parameter(np.random.default_rng(0).uniform(size=(2, 3)))",
        "empty": "use wy.Parameter.zeros((2, 3))",
    }
)
OF_INTEGERS = (
    "index nodes have operators, comparisons, slices, and sum, max, sort and the like: convert with "
    "x.astype(np.float32) for other functions"
)
# A tensor's methods that work in place, each refused in the same words.
_IN_PLACE = (
    "add_ sub_ mul_ div_ pow_ neg_ copy_ fill_ zero_ clamp_ clip_ exp_ log_ sqrt_ abs_ relu_ sigmoid_ tanh_ normal_ uniform_ "
    "squeeze_ unsqueeze_ transpose_ scatter_ scatter_add_ index_add_ masked_fill_ detach_"
)
ANSWERS = _OF_NODES | each({_IN_PLACE: IMMUTABLE})
