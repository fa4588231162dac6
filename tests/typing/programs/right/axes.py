# ruff: noqa
# fmt: off
#@ reductions_along_the_second
reveal_type(sequence.mean(axis=1))  # reveals: Mean[Input[tuple[Batch, Time, In]], tuple[Batch, In]]
reveal_type(sequence.max(axis=1, keepdims=True))  # reveals: Max[Input[tuple[Batch, Time, In]], tuple[Batch, One, In]]
reveal_type(sequence.sum(axis=-2))  # reveals: Sum[Input[tuple[Batch, Time, In]], tuple[Batch, In]]
reveal_type(x.mean(axis=0, keepdims=True))  # reveals: Mean[Input[tuple[Batch, In]], tuple[One, In]]
reveal_type(x.max(1))  # reveals: Max[Input[tuple[Batch, In]], tuple[Batch]]
pooled: wy.Tensor[Batch, Emb] = table.index(tokens).mean(axis=1)
#@ reductions_along_two
reveal_type(sequence.sum(axis=(0, 1)))  # reveals: Sum[Input[tuple[Batch, Time, In]], tuple[In]]
reveal_type(scores.mean(axis=(-2, -1)))  # reveals: Mean[Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads]]
reveal_type(sequence.argmax(axis=1))  # reveals: ArgMax[tuple[Batch, In]]
#@ standardized_columns
centred = x - x.mean(axis=0, keepdims=True)
r: wy.Tensor[Batch, In] = centred / (x.var(axis=0, keepdims=True) + 1e-5).sqrt()
#@ new_axes_by_none
reveal_type(x[:, None])  # reveals: Slice[Input[tuple[Batch, In]], tuple[Batch, One, In]]
reveal_type(x[None])  # reveals: Slice[Input[tuple[Batch, In]], tuple[One, Batch, In]]
reveal_type(vector[None, :])  # reveals: Slice[Input[tuple[In]], tuple[One, In]]
reveal_type(x[..., None])  # reveals: Slice[Input[tuple[Batch, In]], tuple[Batch, In, One]]
r: wy.Tensor[Batch, Time, In] = x[:, None] + sequence
#@ new_axes_by_position
reveal_type(x.expand_dims(0))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[One, Batch, In]]
reveal_type(x.expand_dims(1))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Batch, One, In]]
reveal_type(x.expand_dims(-2))  # reveals: Reshape[Input[tuple[Batch, In]], tuple[Batch, One, In]]
reveal_type(vector.expand_dims(0))  # reveals: Reshape[Input[tuple[In]], tuple[One, In]]
reveal_type(sequence.sum(axis=1, keepdims=True).squeeze(1))  # reveals: Reshape[Sum[Any, tuple[Batch, One, In]], tuple[Batch, In]]
#@ parts_of_later_axes
reveal_type(sequence[:, 1:3])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Batch, Any, In]]
reveal_type(sequence[0, :])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Time, In]]
#@ last_features
reveal_type(sequence[:, :, 0])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Batch, Time]]
reveal_type(sequence[..., 1:])  # reveals: Slice[Input[tuple[Batch, Time, In]], tuple[Batch, Time, Any]]
#@ joined_along_the_second
reveal_type(wy.stack([x, x2], axis=1))  # reveals: Stack[Any, tuple[Batch, Any, In]]  # with the plugin: Stack[tuple[Input[tuple[Batch, In]], Input[tuple[Batch, In]]], tuple[Batch, Any, In]]
reveal_type(wy.concatenate([sequence, sequence], axis=1))  # reveals: Concatenate[Any, tuple[Batch, Any, In]]  # with the plugin: Concatenate[tuple[Input[tuple[Batch, Time, In]], Input[tuple[Batch, Time, In]]], tuple[Batch, Plus[Time, Time], In]]
r: wy.Tensor[Batch, Time, Hid] = wy.stack([h0, h0.tanh()], axis=1)
#@ einsum_of_matrices
reveal_type(wy.einsum("ij,jk->ik", x, w))  # reveals: Einsum[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]
reveal_type(wy.einsum("ij,kj->ik", x, x2))  # reveals: Einsum[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, Batch]]
reveal_type(wy.einsum("ij,ij->i", x, x2))  # reveals: Einsum[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch]]
reveal_type(wy.einsum("i,j->ij", vector, b))  # reveals: Einsum[Input[tuple[In]], Parameter[tuple[Out]], tuple[In, Out]]
reveal_type(wy.einsum("i,i->", vector, vector))  # reveals: Einsum[Input[tuple[In]], Input[tuple[In]], tuple[()]]
r: wy.Tensor[Batch] = wy.einsum("ab,b->a", x, vector)
#@ einsum_of_attention
heads_of = wy.Input(numbers(4, 3, 5, 4), dims=(batch, heads, time, key))
found = wy.einsum("bhqd,bhkd->bhqk", heads_of, heads_of)
r1: wy.Tensor[Batch, Heads, Time, Time] = found.softmax()
r2: wy.Tensor[Batch, Heads, Time, Key] = wy.einsum("bhqk,bhkd->bhqd", found, heads_of)
r3: wy.Tensor[Batch, Time, Out] = wy.einsum("bti,io->bto", sequence, w)
#@ einsum_of_an_array
r: wy.Tensor[Batch, Out] = wy.einsum("ij,jk->ik", x, numbers(7, 3))
#@ einsum_of_any_number_of_operands
r1: wy.Tensor[In, Batch] = wy.einsum("ij->ji", x)
r2: wy.Tensor[Batch, Out] = wy.einsum("ij,jk,kl->il", x, w1, w2, optimize="greedy")
r3: wy.Tensor[Batch, Out] = wy.einsum(x, [0, 1], w, [1, 2], [0, 2])
r4: wy.Tensor[Batch, Time, Out] = wy.einsum("...i,io->...o", sequence, w)
#@ scores_of_classes
probabilities: wy.Tensor[Batch, Out] = (x @ w).softmax()
r1: wy.Tensor[Batch, Time, In] = sequence.softmax(axis=1)
r2: wy.Tensor[In] = vector.log_softmax()
#@ derived_axes_by_hand
joined = wy.Plus((in_, hid))
flat = wy.Times((batch, time))
weights = wy.Parameter(numbers(18, 3), dims=(joined, out))
size: int | None = joined.size
reveal_type(x.concat(h0) @ wy.Parameter.zeros((joined, out)))  # reveals: MatMul[Concatenate[Any, tuple[Batch, Plus[In, Hid]]], Parameter[tuple[Plus[In, Hid], Out]], tuple[Batch, Out]]
#@ axes_multiplied
reveal_type(wy.Parameter.zeros((in_ * hid,)))  # reveals: Parameter[tuple[Times[In, Hid]]]
doubled: wy.Dim = batch * 2
#@ product_of_a_number_and_an_axis
reveal_type(2 * Batch())  # reveals: Times[Any, Batch]
reveal_type(1 + Batch())  # reveals: Plus[Any, Batch]
