# ruff: noqa
# fmt: off
#@ embedding_lookup
reveal_type(table.index(labels))  # reveals: Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch]], tuple[Batch, Emb]]
reveal_type(table.index(tokens))  # reveals: Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch, Time]], tuple[Batch, Time, Emb]]
counts = wy.Parameter.zeros((words,))
reveal_type(counts.index(labels))  # reveals: Index[Parameter[tuple[Words]], IndexNode[tuple[Batch]], tuple[Batch]]
#@ lookup_by_numbers
r1: wy.Tensor[Batch, Emb] = table.index([0, 1, 2, 3])
r2: wy.Tensor[Batch, Emb] = table.index(np.zeros(4, np.int64))
r3: wy.Tensor[Emb] = table.index(3)
#@ take
reveal_type(x.take(labels, axis=0))  # reveals: Index[Input[tuple[Batch, In]], IndexNode[tuple[Batch]], tuple[Batch, In]]  # with the plugin: Index[Input[tuple[Batch, In]], FromEnd[tuple[Batch]], tuple[Batch, In]]
reveal_type(vector.take(tokens, axis=0))  # reveals: Index[Input[tuple[In]], IndexNode[tuple[Batch, Time]], tuple[Batch, Time]]  # with the plugin: Index[Input[tuple[In]], FromEnd[tuple[Batch, Time]], tuple[Batch, Time]]
r1: wy.Tensor[Batch, Out] = x.take([1, 2, 3], axis=1)
r2: wy.Tensor[Any, In] = x.take(np.array([0, 1]), axis=0)
r3: wy.Tensor[In] = x.take(0, axis=0)
reveal_type(x.take(labels))  # reveals: Node[Any, tuple[Batch]]  # with the plugin: Index[Reshape[Any, tuple[Any]], FromEnd[tuple[Batch]], tuple[Batch]]
reveal_type(tokens.take(labels))  # reveals: IndexNode[tuple[Batch]]
#@ take_along_axis
best = x.argmax(axis=-1, keepdims=True)
r1: wy.Tensor[Batch, wy.One] = x.take_along_axis(best)
some = wy.IndexInput(np.zeros((4, 5), np.int64), dims=(batch, time))
reveal_type(x.take_along_axis(some))  # reveals: TakeAlongAxis[Input[tuple[Batch, In]], IndexNode[tuple[Batch, Time]], tuple[Batch, Time]]  # with the plugin: TakeAlongAxis[Input[tuple[Batch, In]], IndexInput[tuple[Batch, Time]], tuple[Batch, Time]]
r2: wy.Tensor[Any, Any] = x.take_along_axis(np.zeros((4, 2), np.int64), axis=1)
#@ scatter_add
rows = wy.Input(numbers(4, 12), dims=(batch, emb))
reveal_type(table.scatter_add(labels, rows))  # reveals: ScatterAdd[Parameter[tuple[Words, Emb]], Node[Any, Any], tuple[Words, Emb]]  # with the plugin: ScatterAdd[Parameter[tuple[Words, Emb]], Input[tuple[Batch, Emb]], tuple[Words, Emb]]
r: wy.Tensor[Words, Emb] = table.scatter_add([0, 0], numbers(2, 12))
#@ parts_of_indices
reveal_type(tokens[0])  # reveals: IndexSlice[tuple[Time]]
reveal_type(tokens[:, 0])  # reveals: IndexSlice[tuple[Batch]]
reveal_type(tokens[0:2])  # reveals: IndexSlice[tuple[Any, Time]]
r: wy.IndexTensor[Batch, Any] = tokens[:, 1:]
#@ reshaped_indices
class Both(wy.Dim): ...
reveal_type(tokens.reshape((Both(20),)))  # reveals: IndexReshape[tuple[Both]]
r1: wy.IndexTensor[Any] = tokens.reshape(-1)
r2: wy.IndexTensor[Time, Batch] = tokens.reshape((time, batch))
r3: wy.IndexTensor[Time, Batch] = tokens.reshape(5, 4)
#@ set_indices
labels.set([0, 1, 2, 0])
labels.set(np.array([0, 1, 2, 0], np.int32))
tokens.set([[0] * 5] * 4)
count = wy.IndexInput()
reveal_type(count)  # reveals: IndexInput[tuple[()]]
count.set(3)
#@ index_leaves
class Unsized(wy.Dim): ...
reveal_type(wy.IndexInput(dims=(Unsized(),)))  # reveals: IndexInput[tuple[Unsized]]
reveal_type(wy.IndexInput([1, 2, 3], dims=(Unsized,)))  # reveals: IndexInput[tuple[Unsized]]
reveal_type(wy.IndexInput(dims=(32,)))  # reveals: IndexInput[tuple[Any]]
reveal_type(wy.IndexConstant([[1], [2]], dims=(Unsized, 1)))  # reveals: IndexConstant[tuple[Unsized, Any]]
reveal_type(wy.IndexConstant([1, 2]))  # reveals: IndexConstant[Any]
#@ index_values
value: NDArray[np.integer[Any]] = tokens.value
computed: NDArray[np.integer[Any]] = tokens.reshape(-1).forward()
first: int = int(tokens.value[0, 0])
#@ comparisons_of_indices
reveal_type(tokens != 0)  # reveals: NotEqual[Any, Any, tuple[Batch, Time]]  # with the plugin: NotEqual[IndexInput[tuple[Batch, Time]], IndexConstant[Any], tuple[Batch, Time]]
reveal_type(tokens == np.zeros(5, np.int64))  # reveals: Equal[Any, Any, tuple[Batch, Time]]
reveal_type(0 < tokens)  # reveals: Greater[Any, Any, tuple[Batch, Time]]  # with the plugin: Greater[IndexInput[tuple[Batch, Time]], IndexConstant[Any], tuple[Batch, Time]]
reveal_type(labels <= labels)  # reveals: LessEqual[Any, Any, tuple[Batch]]  # with the plugin: LessEqual[IndexInput[tuple[Batch]], IndexInput[tuple[Batch]], tuple[Batch]]
one = wy.IndexInput(3)
reveal_type(tokens >= one)  # reveals: GreaterEqual[Any, Any, tuple[Batch, Time]]  # with the plugin: GreaterEqual[IndexInput[tuple[Batch, Time]], IndexInput[tuple[()]], tuple[Batch, Time]]
reveal_type(one == tokens)  # reveals: Equal[Any, Any, tuple[Batch, Time]]  # with the plugin: Equal[IndexInput[tuple[()]], IndexInput[tuple[Batch, Time]], tuple[Batch, Time]]
later = wy.IndexInput(np.zeros(5, np.int64), dims=(time,))
reveal_type(tokens == later)  # reveals: Equal[Any, Any, tuple[Batch, Time]]  # with the plugin: Equal[IndexInput[tuple[Batch, Time]], IndexInput[tuple[Time]], tuple[Batch, Time]]
reveal_type(later == tokens)  # reveals: Equal[Any, Any, tuple[Batch, Time]]  # with the plugin: Equal[IndexInput[tuple[Time]], IndexInput[tuple[Batch, Time]], tuple[Batch, Time]]
padding: wy.Tensor[Batch, Time] = (tokens != 0).astype(np.float32)
#@ rows_at_indices
reveal_type(x[labels])  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(x[[0, 1]])  # reveals: Node[Any, Any]  # with the plugin: Node[Any, tuple[Any, In]]
reveal_type(tokens[:, [0]])  # reveals: IndexNode[Any]  # with the plugin: IndexNode[tuple[Batch, Any]]
reveal_type(x.at[labels].set(0.0))  # reveals: Node[Any, tuple[Batch, In]]
#@ rows_in_order
reveal_type(x.sort(axis=0))  # reveals: TakeAlongAxis[Input[tuple[Batch, In]], IndexNode[Any], tuple[Batch, In]]  # with the plugin: TakeAlongAxis[Input[tuple[Batch, In]], ArgSort[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.argsort())  # reveals: ArgSort[tuple[Batch, In]]
reveal_type(x.cumsum(axis=1))  # reveals: CumSum[tuple[Batch, In]]
reveal_type(wy.flip(x, 1))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.roll(x, 2, axis=1))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.one_hot(labels, 9))  # reveals: Node[Any, tuple[Batch, Any]]
#@ arithmetic_of_integers
reveal_type(labels + 1)  # reveals: IndexAdd[tuple[Batch]]
reveal_type(2 * tokens)  # reveals: IndexMultiply[tuple[Batch, Time]]
reveal_type((labels - labels) // 3 % labels)  # reveals: IndexRemainder[tuple[Batch]]
reveal_type(labels / 2)  # reveals: Node[Any, tuple[Batch]]
reveal_type(-labels)  # reveals: IndexSubtract[tuple[Batch]]
r1: wy.Tensor[Batch, In] = x.take((labels + 1) % 4, axis=0)
r2: wy.Tensor[Batch] = labels.astype(np.float32) * 0.5
#@ functions_of_integers
reveal_type(tokens.sum())  # reveals: IndexNode[tuple[()]]
reveal_type(tokens.max(axis=-1))  # reveals: IndexNode[tuple[Batch]]
reveal_type(wy.min(tokens, axis=0))  # reveals: IndexNode[tuple[Time]]
reveal_type(tokens.cumsum(axis=1))  # reveals: IndexCumSum[tuple[Batch, Time]]
reveal_type(tokens.sort())  # reveals: IndexTakeAlongAxis[tuple[Batch, Time]]
reveal_type(tokens.clip(0, 3))  # reveals: IndexNode[tuple[Batch, Time]]
reveal_type(abs(tokens))  # reveals: IndexNode[tuple[Batch, Time]]
reveal_type(tokens.T)  # reveals: IndexTranspose[tuple[Time, Batch]]
reveal_type(labels.maximum(3))  # reveals: IndexMaximum[tuple[Batch]]
reveal_type(labels.expand_dims(-1))  # reveals: IndexReshape[tuple[Batch, One]]
reveal_type(wy.where(tokens > 0, tokens, 0))  # reveals: IndexNode[Any]  # with the plugin: IndexNode[tuple[Batch, Time]]
#@ counts_of_masks
reveal_type((x > 0).sum())  # reveals: CountTrue[tuple[()]]
r1: wy.Tensor[Batch] = (x > 0).all(axis=-1)
r2: wy.Tensor[()] = (x > 0).any()
r3: wy.IndexTensor[Batch] = x.argmin(axis=-1)
