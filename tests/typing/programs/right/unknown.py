# ruff: noqa
# fmt: off
#@ arithmetic_of_unknown_shapes
r1: wy.Tensor[Batch, Time, In] = unknown + unknown
r2: wy.Tensor[Out] = unknown - 1.0
r3: wy.Tensor[Out] = 1.0 - unknown
r4: wy.Tensor[Batch, Time] = unknown * x
r5: wy.Tensor[Batch, Time] = x / unknown
r6: wy.Tensor[Batch, Time] = unknown.maximum(x)
r7: wy.Tensor[Batch, Time] = unknown > x
r8: wy.Tensor[Batch, Time] = -unknown.tanh()
r9: wy.Tensor[Batch, Time] = array * unknown
#@ products_of_unknown_shapes
right = wy.Node.erase(w)
loose: wy.Node = w
r1: wy.Tensor[Batch, Time, Out] = x @ loose
r2: wy.Tensor[Batch, Time, Out] = unknown @ loose
r3: wy.Tensor[()] = unknown @ w
r4: wy.Tensor[Batch] = unknown.vector_dot(x)
r5: wy.Tensor[Batch, Time] = x.vector_dot(unknown)
r6: wy.Tensor[Batch, Time] = unknown.T
r7: wy.Tensor[Batch, Time, Out] = unknown.mT
r8: wy.Tensor[Batch, Time, Out] = unknown.T.mT @ loose
#@ reductions_of_unknown_shapes
reveal_type(unknown.sum())  # reveals: Sum[Node[Any, Any], tuple[()]]
r1: wy.Tensor[Batch, Time] = unknown.sum(axis=-1)
r2: wy.Tensor[Batch, Time] = unknown.mean(axis=0, keepdims=True)
r3: wy.IndexTensor[Batch, Time] = unknown.argmax(axis=-1)
r4: wy.Tensor[Batch, Time] = unknown.softmax()
unknown.sum().forward()
#@ shapes_of_unknown_shapes
r1: wy.Tensor[Batch, Time] = unknown[0]
r2: wy.Tensor[Batch, Time] = unknown[:, 0]
r3: wy.Tensor[Batch, Time] = unknown.concat(x)
r4: wy.Tensor[Batch, Time] = x.concat(unknown)
r5: wy.Tensor[Batch, Time] = unknown.expand_dims(-1)
r6: wy.Tensor[Batch, Time] = unknown.squeeze()
r7: wy.Tensor[Time, Batch, In] = wy.stack([unknown, unknown])
r8: wy.Tensor[Time, Batch] = wy.concatenate([unknown, x])
r9: wy.Tensor[Time, Batch] = unknown.transpose(1, 0)
for row in unknown:
    r: wy.Tensor[Batch, Time] = row
#@ unknown_indices
some = wy.IndexInput(np.zeros((3, 2), np.int64))
r1: wy.Tensor[Batch, Time, Emb] = table.index(some)
r2: wy.Tensor[Batch, Time, Emb] = x.take(some, axis=0)
guess: wy.IndexNode = unknown.argmax()
loose = wy.Parameter(numbers(20, 3))
r3: wy.Tensor[Batch, Time] = loose.index(labels)
r4: wy.Tensor[Batch, Time] = loose.index(some)
#@ unknown_labels
classes = wy.IndexInput(np.zeros(4, np.int64))
(x @ w).cross_entropy(classes).backward()
unknown.cross_entropy(classes).forward()
unknown.cross_entropy(labels).forward()
#@ unknown_in_where
r1: wy.Tensor[Batch, In] = wy.where(unknown > 0, x, x2)
r2: wy.Tensor[Batch, In] = wy.where(x > 0, unknown, x2)
r3: wy.Tensor[Batch, In] = wy.where(x > 0, x, unknown)
r4: wy.Tensor[Batch, Time] = wy.where(unknown > 0, unknown, 0.0)
#@ plain_sizes
p = wy.Parameter.zeros((7, 3))
i = wy.Input(numbers(4, 7), dims=(4, 7))
bias = wy.Parameter(np.zeros(3, np.float32))
o = (i @ p + bias).relu()
o2 = o.T @ o + 1.0
(o - i @ p).square().mean().backward()
o.sum(axis=-1).sum().backward()
o.concat(o) + 1.0
mixed1: wy.Tensor[Batch, Out] = i @ w
mixed2: wy.Tensor[Batch, Out] = x @ p + bias
#@ plain_sizes_broadcast_as_numpy_says
image = wy.Input(numbers(2, 3, 4, 4), dims=(2, 3, 4, 4))
channel = wy.Parameter.zeros((3, 1, 1))
r1 = image * channel + channel
column, row = wy.Input(numbers(4, 1), dims=(4, 1)), wy.Input(numbers(1, 7), dims=(1, 7))
r2 = column + row
r3 = image + wy.Parameter.zeros((4, 4))
r4 = image - wy.Parameter.zeros((4,))
#@ untyped_functions
def f(a: Any, b: Any) -> Any:
    return a @ b + 1
r1: wy.Tensor[Batch, Out] = f(x, w)
def g(a: wy.Node, b: wy.Node) -> wy.Node:
    return (a @ b + 1).relu() * a.sum(axis=-1, keepdims=True)
r2: wy.Tensor[Batch, Out] = g(x, w)
#@ values_of_type_any
def f(a: Any) -> None:
    r1: wy.Tensor[Batch, Time] = x + a
    r2: wy.Tensor[Batch, Time] = a + x
    r3: wy.Tensor[Batch, Time] = x @ a
    r4: wy.Tensor[Batch, Time] = x.maximum(a)
    r5: wy.Tensor[Batch, Time] = x[a]
    r6: wy.Tensor[Batch, Time] = x.reshape(a)
    r7: wy.Tensor[Batch, Time] = x.sum(a)
    r8: wy.Tensor[Batch, Time] = x.concat(a)
    r9: wy.Tensor[Batch, Time] = wy.where(a, a, a)
    r10: wy.Tensor[Batch, Time, Emb] = table.index(a)
    (x @ w).cross_entropy(a).backward()
    r11: wy.Parameter[tuple[In, Out]] = wy.Parameter.zeros(a)
#@ leaves_of_type_any
def f(a: Any) -> None:
    r1: wy.Parameter[tuple[In, Out]] = wy.Parameter(a)
    r2: wy.Input[tuple[In, Out]] = wy.Input(dims=a)
#@ loop_of_unknown_shapes
h: wy.Node = x
for weights in (w1, w2):
    h = (h @ weights).relu()
h.sum().backward()
#@ partly_unknown
u = wy.Input(numbers(4, 7), dims=(batch, 7))
r1: wy.Tensor[Batch, Out] = u @ w
r2: wy.Tensor[Batch, In] = u + x
r3: wy.Tensor[Batch] = u.sum(axis=-1)
def f(v: wy.Tensor[Any, In]) -> wy.Tensor[Any, Out]:
    return v @ w
r4: wy.Tensor[Batch, Out] = f(x)
#@ bare_tensor
# mypy: allow-any-generics
def f(a: wy.Tensor, b: wy.Tensor) -> wy.Tensor:
    h = a @ b + 1
    return h.tanh() * a.sum(axis=-1, keepdims=True) + x
r: wy.Tensor[Batch, Out] = f(x, x.T @ x2)
#@ products_by_an_unknown_number_of_axes
def f(u: wy.Node[Any, tuple[Any, ...]], v: wy.Tensor[*tuple[Any, ...], In], rows: wy.Tensor[Batch, *tuple[Any, ...]]) -> None:
    reveal_type(sequence @ u)  # reveals: MatMul[Any, Any, Any]
    reveal_type(x @ v)  # reveals: MatMul[Any, Any, Any]
    reveal_type(w @ rows)  # reveals: MatMul[Parameter[tuple[In, Out]], Any, Any]
    reveal_type(vector @ rows)  # reveals: MatMul[Input[tuple[In]], Any, Any]
    reveal_type(v @ w)  # reveals: MatMul[Node[Any, tuple[*tuple[Any, ...], In]], Parameter[tuple[In, Out]], tuple[*tuple[Any, ...], Out]]
#@ sums_over_an_unknown_number_of_axes
def f(u: wy.Node[Any, tuple[Any, ...]], rows: wy.Tensor[Batch, *tuple[Any, ...]]) -> None:
    reveal_type(u.sum(axis=0))  # reveals: Sum[Node[Any, tuple[Any, ...]], tuple[Any, ...]]
    reveal_type(rows.mean(axis=-1))  # reveals: Mean[Node[Any, tuple[Batch, *tuple[Any, ...]]], tuple[Batch, *tuple[Any, ...]]]
    reveal_type(rows[0])  # reveals: Slice[Node[Any, tuple[Batch, *tuple[Any, ...]]], tuple[Any, ...]]
#@ quotient_of_an_einsum_of_three
total = x.sum(axis=-1, keepdims=True)
shares = wy.einsum("ij,jk,kl->il", x, w1, w2) / total
(shares + y).forward()
r: wy.Tensor[Batch, Out] = total / wy.einsum("ij,jk,kl->il", x, w1, w2)
#@ row_against_an_unknown_shape
def f(row: wy.Tensor[In], u: wy.Node) -> None:
    r1: wy.Tensor[Batch, In] = row.maximum(u)
    r2: wy.Tensor[Batch, In] = row < u
    r3: wy.Tensor[Batch, In] = u.maximum(row)
f(vector, unknown)
