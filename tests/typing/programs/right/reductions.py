# ruff: noqa
# fmt: off
#@ reductions_over_all
reveal_type(x.sum())  # reveals: Sum[Input[tuple[Batch, In]], tuple[()]]
reveal_type(x.mean())  # reveals: Mean[Input[tuple[Batch, In]], tuple[()]]
reveal_type(x.max())  # reveals: Max[Input[tuple[Batch, In]], tuple[()]]
reveal_type(x.min())  # reveals: Min[Input[tuple[Batch, In]], tuple[()]]
reveal_type(x.var())  # reveals: Variance[Input[tuple[Batch, In]], tuple[()]]
reveal_type(x.logsumexp())  # reveals: LogSumExp[Input[tuple[Batch, In]], tuple[()]]
reveal_type(scale.sum())  # reveals: Sum[Parameter[tuple[()]], tuple[()]]
#@ reductions_over_the_last
reveal_type(x.sum(axis=-1))  # reveals: Sum[Input[tuple[Batch, In]], tuple[Batch]]
reveal_type(sequence.mean(-1))  # reveals: Mean[Input[tuple[Batch, Time, In]], tuple[Batch, Time]]
reveal_type(vector.max(axis=-1))  # reveals: Max[Input[tuple[In]], tuple[()]]
reveal_type(x.min(axis=-1))  # reveals: Min[Input[tuple[Batch, In]], tuple[Batch]]
reveal_type(x.var(axis=-1, ddof=1))  # reveals: Variance[Input[tuple[Batch, In]], tuple[Batch]]
reveal_type(x.logsumexp(axis=-1))  # reveals: LogSumExp[Input[tuple[Batch, In]], tuple[Batch]]
#@ reductions_that_keep_the_axis
reveal_type(x.sum(axis=-1, keepdims=True))  # reveals: Sum[Input[tuple[Batch, In]], tuple[Batch, One]]
reveal_type(sequence.mean(-1, True))  # reveals: Mean[Input[tuple[Batch, Time, In]], tuple[Batch, Time, One]]
reveal_type(x.max(axis=-1, keepdims=True))  # reveals: Max[Input[tuple[Batch, In]], tuple[Batch, One]]
reveal_type(x.sum(keepdims=True))  # reveals: Sum[Input[tuple[Batch, In]], Any]  # with the plugin: Sum[Input[tuple[Batch, In]], tuple[One, One]]
r: wy.Tensor[Batch, In] = (x - x.mean(axis=-1, keepdims=True)) / x.var(axis=-1, keepdims=True).sqrt()
#@ reductions_over_the_first
reveal_type(x.sum(axis=0))  # reveals: Sum[Input[tuple[Batch, In]], tuple[In]]
reveal_type(sequence.mean(0))  # reveals: Mean[Input[tuple[Batch, Time, In]], tuple[Time, In]]
r: wy.Tensor[Batch, In] = x - x.mean(axis=0)
#@ other_axes_are_unknown
which: int = 0
r1: wy.Tensor[In] = x.sum(axis=which)
r2: wy.Tensor[Batch, Time] = sequence.max(axis=2)
r3: wy.Tensor[()] = x.sum(axis=(0, 1))
keep = True
r4: wy.Tensor[Batch, wy.One] = x.sum(axis=-1, keepdims=keep)
reveal_type(sequence.sum(axis=2))  # reveals: Sum[Input[tuple[Batch, Time, In]], Any]  # with the plugin: Sum[Input[tuple[Batch, Time, In]], tuple[Batch, Time]]
#@ argmax
reveal_type(x.argmax())  # reveals: ArgMax[tuple[()]]
reveal_type(x.argmax(-1))  # reveals: ArgMax[tuple[Batch]]
reveal_type(sequence.argmax(axis=-1))  # reveals: ArgMax[tuple[Batch, Time]]
reveal_type(x.argmax(axis=0))  # reveals: ArgMax[tuple[In]]
reveal_type(x.argmax(-1, keepdims=True))  # reveals: ArgMax[tuple[Batch, One]]
kept: wy.IndexNode = x.argmax(keepdims=True)
r0: wy.IndexTensor[()] = scale.argmax()
r: wy.IndexTensor[Batch] = (x @ w).argmax(axis=-1)
value: NDArray[np.integer[Any]] = r.forward()
#@ layer_norm
def layer_norm(
    x: wy.Tensor[Batch, Time, Emb], gain: wy.Tensor[Emb], bias: wy.Tensor[Emb]
) -> wy.Tensor[Batch, Time, Emb]:
    centered = x - x.mean(axis=-1, keepdims=True)
    deviation = (centered.square().mean(axis=-1, keepdims=True) + 1e-5).sqrt()
    return centered / deviation * gain + bias
layer_norm(table.index(tokens), wy.Parameter(numbers(12), dims=(emb,)), wy.Parameter.zeros((emb,)))
#@ softmax_by_hand
shifted = scores - scores.max(axis=-1, keepdims=True)
powers = shifted.exp()
r: wy.Tensor[Batch, Heads, Time, Time] = powers / powers.sum(axis=-1, keepdims=True)
