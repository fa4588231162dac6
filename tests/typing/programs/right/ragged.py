# ruff: noqa
# fmt: off
#@ ragged_inputs
reveal_type(clicked)  # reveals: IndexInput[tuple[Batch, Clicks]]
reveal_type(visits)  # reveals: Input[tuple[Batch, Clicks, In]]
#@ ragged_lookup
reveal_type(table.index(clicked))  # reveals: Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch, Clicks]], tuple[Batch, Clicks, Emb]]
r: wy.Tensor[Batch, Clicks, Emb] = table.index(clicked)
#@ ragged_bag
reveal_type(table.index(clicked).sum(axis=1))  # reveals: Sum[Index[Any, Any, tuple[Batch, Clicks, Emb]], tuple[Batch, Emb]]
r: wy.Tensor[Batch, Emb] = table.index(clicked).mean(axis=1)
#@ ragged_elementwise
reveal_type(visits.tanh() * 2.0)  # reveals: Multiply[Tanh[Any, tuple[Batch, Clicks, In]], Constant[Any], tuple[Batch, Clicks, In]]
reveal_type(visits + visits)  # reveals: Add[Input[tuple[Batch, Clicks, In]], Input[tuple[Batch, Clicks, In]], tuple[Batch, Clicks, In]]
#@ ragged_weights_of_entries
reveal_type(visits * dwell.expand_dims(-1))  # reveals: Multiply[Input[tuple[Batch, Clicks, In]], Reshape[Any, tuple[Batch, Clicks, One]], tuple[Batch, Clicks, In]]
#@ ragged_value_of_the_row
r: wy.Tensor[Batch, Clicks, In] = visits * x.expand_dims(1)
#@ ragged_product_with_a_matrix
reveal_type(visits @ w)  # reveals: MatMul[Input[tuple[Batch, Clicks, In]], Parameter[tuple[In, Out]], tuple[Batch, Clicks, Out]]
#@ ragged_softmax
reveal_type(dwell.softmax(axis=1))  # reveals: Softmax[Input[tuple[Batch, Clicks]], tuple[Batch, Clicks]]
r: wy.Tensor[Batch, Clicks] = dwell.softmax(axis=1)
#@ ragged_attention_pooling
weights: wy.Tensor[Batch, Clicks] = (visits * x.expand_dims(1)).sum(axis=-1).softmax(axis=1)
pooled: wy.Tensor[Batch, In] = (visits * weights.expand_dims(-1)).sum(axis=1)
#@ ragged_extremes
reveal_type(visits.max(axis=1))  # reveals: Max[Input[tuple[Batch, Clicks, In]], tuple[Batch, In]]
reveal_type(visits.min(axis=1, keepdims=True))  # reveals: Min[Input[tuple[Batch, Clicks, In]], tuple[Batch, One, In]]
reveal_type(dwell.logsumexp(axis=1))  # reveals: LogSumExp[Input[tuple[Batch, Clicks]], tuple[Batch]]
#@ ragged_cumulative
reveal_type(visits.cumsum(axis=1))  # reveals: CumSum[tuple[Batch, Clicks, In]]
#@ ragged_lengths
reveal_type(wy.row_lengths(clicked))  # reveals: IndexNode[tuple[Batch]]
reveal_type(wy.row_lengths(visits))  # reveals: IndexNode[tuple[Batch]]
#@ ragged_positions
reveal_type(wy.entry_positions(visits))  # reveals: IndexNode[tuple[Batch, Clicks]]
reveal_type(wy.entry_rows(clicked))  # reveals: IndexNode[tuple[Batch, Clicks]]
#@ ragged_ends
reveal_type(wy.first_entry(visits))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.last_entry(dwell))  # reveals: Node[Any, tuple[Batch]]
#@ ragged_entry_at
reveal_type(wy.entry_at(visits, 1))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.entry_at(visits, wy.row_lengths(visits) - 1))  # reveals: Node[Any, tuple[Batch, In]]
#@ ragged_loop
def decayed(carry: wy.Tensor[In], x: wy.Tensor[In]) -> tuple[wy.Tensor[In], wy.Tensor[In]]:
    return carry * 0.5 + x, carry
reveal_type(wy.row_scan(decayed, visits.sum(axis=1), visits))  # reveals: tuple[Node[Any, tuple[Batch, In]], Node[Any, tuple[Batch, Clicks, In]]]
#@ ragged_embedding_bag
r: wy.Tensor[Batch, Emb] = wy.nn.EmbeddingBag(words, emb)(clicked)
#@ ragged_embedding
r: wy.Tensor[Batch, Clicks, Emb] = wy.nn.Embedding(words, emb)(clicked)
#@ ragged_linear
r: wy.Tensor[Batch, Clicks, Hid] = wy.nn.Linear(in_, hid)(visits)
#@ ragged_data
clicked.set([[1, 2], [], [3], [4]])
dwell.set(wy.RaggedArray.of_rows([[1.0], [], [2.0], [3.0]]))
#@ ragged_array_rows
rows = wy.RaggedArray.of_rows([[1, 2], [], [3]])
row: np.ndarray = rows[0]
some: wy.RaggedArray = rows[1:]
lengths: NDArray[np.int64] = rows.lengths
#@ ragged_mask
reveal_type((dwell > 0.0).any(axis=1))  # reveals: Node[Any, Any]  # with the plugin: Node[Any, tuple[Batch]]
reveal_type((clicked != 0).sum(axis=1))  # reveals: CountTrue[Any]  # with the plugin: CountTrue[tuple[Batch]]
#@ ragged_where
reveal_type(wy.where(dwell > 0.0, dwell, 0.0))  # reveals: Where[Input[tuple[Batch, Clicks]], Constant[Any], tuple[Batch, Clicks]]
#@ ragged_function_of_shapes
def mean_of_entries(entries: wy.Tensor[Batch, Clicks, In]) -> wy.Tensor[Batch, In]:
    return entries.mean(axis=1)
reveal_type(mean_of_entries(visits))  # reveals: Node[Any, tuple[Batch, In]]
#@ ragged_value
reveal_type(dwell.value)  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]  # with the plugin: RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]]
reveal_type(clicked.value)  # reveals: ndarray[tuple[Any, ...], dtype[integer[Any]]]  # with the plugin: RaggedArray[ndarray[tuple[Any, ...], dtype[integer[Any]]]]
reveal_type((visits * 2.0).forward())  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]  # with the plugin: RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]]
#@ ragged_value_of_rows
reveal_type(visits.sum(axis=1).forward())  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
reveal_type(unknown.value)  # reveals: ndarray[tuple[Any, ...], dtype[floating[Any]]]
#@ ragged_program
reveal_type(wy.compile(dwell.softmax(axis=1)))  # reveals: Program[ndarray[tuple[Any, ...], dtype[floating[Any]]], float]  # with the plugin: Program[RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]], float]
reveal_type(wy.compile(clicked + 1)({clicked: [[1], [2, 3], [], [4]]}))  # reveals: ndarray[tuple[Any, ...], dtype[integer[Any]]]  # with the plugin: RaggedArray[ndarray[tuple[Any, ...], dtype[integer[Any]]]]
#@ ragged_program_of_rows
reveal_type(wy.compile(dwell.sum(axis=1)))  # reveals: Program[ndarray[tuple[Any, ...], dtype[floating[Any]]], float]
#@ ragged_joined
reveal_type(wy.concatenate((dwell, purchases), axis=1))  # reveals: Node[Any, tuple[Batch, Joined[Clicks, Purchases]]]
r: wy.Tensor[Batch, wy.Joined[Clicks, Purchases]] = wy.concatenate((dwell, purchases), axis=1)
#@ ragged_joined_with_itself
r: wy.Tensor[Batch, wy.Joined[Clicks, Clicks], In] = wy.concatenate((visits, visits * 2.0), axis=1)
#@ ragged_joined_integers
reveal_type(wy.concatenate((clicked, clicked), axis=1))  # reveals: IndexNode[tuple[Batch, Joined[Clicks, Clicks]]]
r: wy.Tensor[Batch, wy.Joined[Clicks, Clicks], Emb] = table.index(wy.concatenate((clicked, clicked), axis=1))
#@ ragged_joined_pooling
def pooled(entries: wy.Tensor[Batch, wy.Joined[Clicks, Clicks], In], query: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, In]:
    weights = (entries * query.expand_dims(1)).sum(axis=-1).softmax(axis=1)
    return (entries * weights.expand_dims(-1)).sum(axis=1)
r: wy.Tensor[Batch, In] = pooled(wy.concatenate((visits, visits), axis=1), x)
#@ ragged_pairs
left, right = wy.row_pairs(visits)
reveal_type(left)  # reveals: Node[Any, tuple[Batch, Pairs[Clicks], In]]
r: wy.Tensor[Batch, In] = (left * right).sum(axis=1)
#@ ragged_pairs_of_integers
one, other = wy.row_pairs(clicked)
reveal_type(one)  # reveals: IndexNode[tuple[Batch, Pairs[Clicks]]]
products: wy.Tensor[Batch, wy.Pairs[Clicks], Emb] = table.index(one) * table.index(other)
#@ ragged_pairs_of_joined
left, right = wy.row_pairs(wy.concatenate((dwell, purchases), axis=1))
r: wy.Tensor[Batch, wy.Pairs[wy.Joined[Clicks, Purchases]]] = left - right
