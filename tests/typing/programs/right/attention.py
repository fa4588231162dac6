# ruff: noqa
# fmt: off
#@ attention_with_a_mask_of_words
block = wy.nn.MultiHeadAttention(emb, 3, causal=False)
h = table.index(tokens)
present: NDArray[np.bool_] = np.ones((4, 5), np.bool_)
r: wy.Tensor[Batch, Time, Emb] = block(h, key_mask=present)
#@ attention_with_a_mask_of_pairs
block = wy.nn.MultiHeadAttention(emb, 3, causal=False)
h = table.index(tokens)
pairs = wy.Input(np.ones((4, 5, 5), np.float32), dims=(batch, time, time)) > 0.5
r: wy.Tensor[Batch, Time, Emb] = block(h, pairs)
#@ attention_to_a_memory
block = wy.nn.MultiHeadAttention(emb, 3, causal=False)
h = table.index(tokens)
memory = wy.Input(numbers(4, 6, 12), dims=(batch, source, emb))
r1: wy.Tensor[Batch, Time, Emb] = block(h, key=memory)
r2: wy.Tensor[Batch, Time, Emb] = block(h, key=memory, value=memory * 0.5)
among = wy.Input(np.ones((4, 6), np.float32), dims=(batch, source)) > 0.0
r3: wy.Tensor[Batch, Time, Emb] = block(h, key=memory, key_mask=among)
#@ scaled_products_of_queries_and_keys
q = wy.Input(numbers(4, 3, 5, 4), dims=(batch, heads, time, key))
k = wy.Input(numbers(4, 3, 6, 4), dims=(batch, heads, source, key))
weights = (q @ k.mT * 0.5).softmax()
reveal_type(weights)  # reveals: Softmax[Multiply[Any, Any, tuple[Batch, Heads, Time, Source]], tuple[Batch, Heads, Time, Source]]
r: wy.Tensor[Batch, Heads, Time, Key] = weights @ k
#@ attention_scores_where_a_mask_allows
q = wy.Input(numbers(4, 5, 4), dims=(batch, time, key))
allowed = wy.Input(numbers(4, 5, 5), dims=(batch, time, time)) > 0.3
scored = wy.where(allowed, q @ q.mT, -1e9)
reveal_type(scored)  # reveals: Where[MatMul[Any, Any, tuple[Batch, Time, Time]], Constant[Any], tuple[Batch, Time, Time]]
r: wy.Tensor[Batch, Time, Key] = scored.softmax() @ q
#@ attention_with_linear_biases
block = wy.nn.MultiHeadAttention(emb, 3, alibi=True)
r: wy.Tensor[Batch, Time, Emb] = block(table.index(tokens))
#@ attention_inside_a_residual_block
class Block(wy.nn.Module, Generic[D]):
    def __init__(self, width: D) -> None:
        self.norm = wy.nn.LayerNorm(width)
        self.attention = wy.nn.MultiHeadAttention(width, 3)
        self.inner = wy.nn.FeedForward(width, 4)
    def __call__(self, x: wy.Tensor[B, M, D]) -> wy.Tensor[B, M, D]:
        h = x + self.attention(self.norm(x))
        return h + self.inner(h)
r: wy.Tensor[Batch, Time, Emb] = Block(emb)(table.index(tokens))
#@ attention_weights_of_a_vector
query = wy.Parameter(numbers(7), dims=(in_,))
weights = (sequence @ query).softmax()
r: wy.Tensor[Batch, In] = (weights.expand_dims(-1) * sequence).sum(axis=1)
#@ scaled_by_the_width
width = float(numbers(4, 5).shape[1])
reveal_type(x / np.sqrt(width))  # reveals: Any  # with the plugin: Divide[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x / width**0.5)  # reveals: Any  # with the plugin: Divide[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x * width**-0.5)  # reveals: Any  # with the plugin: Multiply[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(np.sqrt(width) * x)  # reveals: Any  # with the plugin: Multiply[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.maximum(np.log(width)))  # reveals: Maximum[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
r: complex = width ** 0.5
#@ divided_into_heads
reveal_type(sequence.reshape((*sequence.dims[:2], -1, 1)))  # reveals: Reshape[Input[tuple[Batch, Time, In]], tuple[Batch, Time, Any, Any]]
reveal_type(sequence.reshape((*sequence.shape[:2], -1, 1)))  # reveals: Reshape[Input[tuple[Batch, Time, In]], Any]
reveal_type(sequence.reshape(sequence.shape))  # reveals: Reshape[Input[tuple[Batch, Time, In]], Any]
reveal_type(sequence.broadcast_to(sequence.shape))  # reveals: BroadcastTo[Input[tuple[Batch, Time, In]], Any]
