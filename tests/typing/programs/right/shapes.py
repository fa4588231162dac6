# ruff: noqa
# fmt: off
#@ reshape_to_named_axes
class Flat(wy.Dim): ...
class Half(wy.Dim): ...
reveal_type(w.reshape((Flat(21),)))  # reveals: Reshape[Parameter[tuple[In, Out]], tuple[Flat]]
reveal_type(x.reshape((Half(2), Flat(2), in_)))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Half, Flat, In]]
reveal_type(x.reshape(in_, batch))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[In, Batch]]
r: wy.Tensor[Half, Flat, In] = x.reshape(Half(2), Flat(2), in_)
#@ reshape_with_numbers
reveal_type(x.reshape(-1))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Any]]
reveal_type(x.reshape((batch, -1)))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Batch, Any]]
reveal_type(x.reshape(2, 2, 7))  # reveals: Reshape[Input[tuple[Batch, In]], Any]
reveal_type(x.reshape([2, 14]))  # reveals: Reshape[Input[tuple[Batch, In]], Any]
reveal_type(sequence.reshape((batch, time, 7, 1)))  # reveals: Reshape[Input[tuple[Batch, Time, In]], tuple[Batch, Time, Any, Any]]
r1: wy.Tensor[Batch, In] = x.reshape((4, 7))
r2: wy.Tensor[Batch, In] = x.reshape(array.shape)
#@ ravel_and_squeeze
reveal_type(x.ravel())  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Any]]
kept = x.sum(axis=-1, keepdims=True)
reveal_type(kept.squeeze(-1))  # reveals: Reshape[Sum[Any, tuple[Batch, One]], tuple[Batch]]
r: wy.Tensor[Batch] = kept.squeeze()
#@ expand_dims
reveal_type(x.expand_dims(-1))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Batch, In, One]]
column = x.sum(axis=-1).expand_dims(-1)
reveal_type(x - column)  # reveals: Subtract[Input[tuple[Batch, In]], Reshape[Any, tuple[Batch, One]], tuple[Batch, In]]
r: wy.Tensor[Batch, In] = vector.expand_dims(0) + x
#@ broadcast_to
reveal_type(vector.broadcast_to((batch, in_)))  # reveals: BroadcastTo[Input[tuple[In]], tuple[Batch, In]]
r: wy.Tensor[Batch, In] = vector.broadcast_to((4, 7))
#@ rows
reveal_type(x[0])  # reveals: Slice[Input[tuple[Batch, In]], tuple[In]]
reveal_type(sequence[-1])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Time, In]]
reveal_type(sequence[0][1])  # reveals: Slice[Slice[Any, tuple[Time, In]], tuple[In]]
reveal_type(sequence[0, 1])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[In]]
reveal_type(x[0, 1])  # reveals: Slice[Input[tuple[Batch, In]], tuple[()]]
#@ slices
reveal_type(sequence[:, 0])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Batch, In]]
reveal_type(sequence[..., 0])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Batch, Time]]
reveal_type(x[0:2])  # reveals: Slice[Input[tuple[Batch, In]], tuple[Any, In]]
r1: wy.Tensor[Batch, In] = x[...]
r2: wy.Tensor[wy.One, Any] = x[None, 0, ::2]
r3: wy.Tensor[Batch, Time, In] = sequence[:, 1:3]
r4: wy.Tensor[Time, In] = sequence[np.int64(0)]
#@ iteration
for row in x:
    reveal_type(row)  # reveals: Slice[Input[tuple[Batch, In]], tuple[In]]
first, *rest = sequence
r: wy.Tensor[Time, In] = first
#@ concat
joined = h0.concat(x)
reveal_type(joined)  # reveals: Concatenate[tuple[Input[tuple[Batch, Hid]], Input[tuple[Batch, In]]], tuple[Batch, Plus[Hid, In]]]
weights: wy.Parameter[tuple[wy.Plus[Hid, In], Out]] = wy.Parameter.zeros((wy.Plus((hid, in_)), out))
reveal_type(joined @ weights)  # reveals: MatMul[Concatenate[Any, tuple[Batch, Plus[Hid, In]]], Parameter[tuple[Plus[Hid, In], Out]], tuple[Batch, Out]]
#@ concatenate
reveal_type(wy.concatenate([x, x2]))  # reveals: Concatenate[Any, tuple[Any, In]]  # with the plugin: Concatenate[tuple[Input[tuple[Batch, In]], Input[tuple[Batch, In]]], tuple[Plus[Batch, Batch], In]]
reveal_type(wy.concatenate([x, x2], axis=-1))  # reveals: Concatenate[Any, tuple[Batch, Any]]  # with the plugin: Concatenate[tuple[Input[tuple[Batch, In]], Input[tuple[Batch, In]]], tuple[Batch, Plus[In, In]]]
r1: wy.Tensor[Batch, Any] = wy.concatenate([x, y], axis=1)
r2: wy.Tensor[Any, In] = wy.concatenate((x, array, x2))
which = 0
r3: wy.Tensor[Any, In] = wy.concatenate([x, x2], axis=which)
#@ stack
reveal_type(wy.stack([x, x2]))  # reveals: Stack[Any, tuple[Any, Batch, In]]  # with the plugin: Stack[tuple[Input[tuple[Batch, In]], Input[tuple[Batch, In]]], tuple[Any, Batch, In]]
reveal_type(wy.stack([x, x2], axis=-1))  # reveals: Stack[Any, tuple[Batch, In, Any]]  # with the plugin: Stack[tuple[Input[tuple[Batch, In]], Input[tuple[Batch, In]]], tuple[Batch, In, Any]]
steps: list[wy.Tensor[Batch, Hid]] = [h0, h0.tanh()]
r1: wy.Tensor[Any, Batch, Hid] = wy.stack(steps)
r2: wy.Tensor[Batch, Time, Hid] = wy.stack(steps, axis=1)
#@ split
parts = x.split(2)
reveal_type(parts)  # reveals: list[Slice[Input[tuple[Batch, In]], tuple[Any, In]]]
left, right = x.split([3], axis=-1)
reveal_type(left)  # reveals: Slice[Input[tuple[Batch, In]], tuple[Batch, Any]]
#@ multi_head_by_typed_reshape
def split(q: wy.Tensor[Batch, Time, Emb]) -> wy.Tensor[Batch, Heads, Time, Key]:
    return q.reshape((batch, time, heads, key)).transpose(0, 2, 1, 3)
def attend(
    q: wy.Tensor[Batch, Heads, Time, Key], k: wy.Tensor[Batch, Heads, Source, Key]
) -> wy.Tensor[Batch, Heads, Time, Source]:
    return (q @ k.mT).softmax()
split(table.index(tokens))
#@ dims_read_back
size: Batch = x.dims[0]
h = wy.Input(dims=(x.dims[0], hid))
r: wy.Tensor[Batch, Hid] = h
for i in range(size):
    pass
shape: tuple[int, ...] = x.shape
count: int = x.size + x.ndim
