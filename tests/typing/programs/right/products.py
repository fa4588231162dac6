# ruff: noqa
# fmt: off
#@ matmul_of_common_ranks
reveal_type(x @ w)  # reveals: MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]
reveal_type(vector @ w)  # reveals: MatMul[Input[tuple[In]], Parameter[tuple[In, Out]], tuple[Out]]
reveal_type(x @ vector)  # reveals: MatMul[Input[tuple[Batch, In]], Input[tuple[In]], tuple[Batch]]
reveal_type(vector @ vector)  # reveals: MatMul[Input[tuple[In]], Input[tuple[In]], tuple[()]]
reveal_type(sequence @ w)  # reveals: MatMul[Input[tuple[Batch, Time, In]], Parameter[tuple[In, Out]], tuple[Batch, Time, Out]]
reveal_type(sequence @ vector)  # reveals: MatMul[Input[tuple[Batch, Time, In]], Input[tuple[In]], tuple[Batch, Time]]
#@ batched_matmul
reveal_type(sequence @ sequence.mT)  # reveals: MatMul[Input[tuple[Batch, Time, In]], Transpose[Any, tuple[Batch, In, Time]], tuple[Batch, Time, Time]]
reveal_type(scores @ scores)  # reveals: MatMul[Input[tuple[Batch, Heads, Time, Time]], Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads, Time, Time]]
#@ broadcast_matmul
reveal_type(vector @ sequence.mT)  # reveals: MatMul[Input[tuple[In]], Transpose[Any, tuple[Batch, In, Time]], tuple[Batch, Time]]
reveal_type(w.T @ sequence.mT)  # reveals: MatMul[Transpose[Any, tuple[Out, In]], Transpose[Any, tuple[Batch, In, Time]], tuple[Batch, Out, Time]]
per_head = wy.Parameter.zeros((heads, time, key))
reveal_type(scores @ per_head)  # reveals: MatMul[Input[tuple[Batch, Heads, Time, Time]], Parameter[tuple[Heads, Time, Key]], tuple[Batch, Heads, Time, Key]]
reveal_type(per_head.mT @ scores)  # reveals: MatMul[Transpose[Any, tuple[Heads, Key, Time]], Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads, Key, Time]]
#@ matmul_with_arrays
r1: wy.Tensor[Batch, Out] = x @ numbers(7, 3)
r2: wy.Tensor[Out, In] = numbers(3, 4) @ x
reveal_type(x @ numbers(7, 3))  # reveals: MatMul[Input[tuple[Batch, In]], Constant[Any], Any]
reveal_type(numbers(3, 4) @ x)  # reveals: MatMul[Constant[Any], Input[tuple[Batch, In]], Any]
#@ vector_dot
reveal_type(x.vector_dot(x2))  # reveals: VectorDot[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch]]
reveal_type(x.vector_dot(vector))  # reveals: VectorDot[Input[tuple[Batch, In]], Input[tuple[In]], tuple[Batch]]
reveal_type(vector.vector_dot(sequence))  # reveals: VectorDot[Input[tuple[In]], Input[tuple[Batch, Time, In]], tuple[Batch, Time]]
r: wy.Tensor[Batch] = x.vector_dot(array)
#@ einsum
r: wy.Tensor[Batch, Out] = wy.einsum("ij,jk->ik", x, w)
#@ factorisation
users, items = wy.nn.Embedding(words, emb), wy.nn.Embedding(words, emb)
score: wy.Tensor[Batch] = users(labels).vector_dot(items(labels))
loss = (1.0 - score.sigmoid()).log().sum()
loss.backward()
#@ transposes
reveal_type(x.T)  # reveals: Transpose[Input[tuple[Batch, In]], tuple[In, Batch]]
reveal_type(x.mT)  # reveals: Transpose[Input[tuple[Batch, In]], tuple[In, Batch]]
reveal_type(sequence.mT)  # reveals: Transpose[Input[tuple[Batch, Time, In]], tuple[Batch, In, Time]]
reveal_type(sequence.T)  # reveals: Transpose[Input[tuple[Batch, Time, In]], tuple[In, Time, Batch]]
reveal_type(vector.T)  # reveals: Transpose[Input[tuple[In]], tuple[In]]
reveal_type(x.transpose())  # reveals: Transpose[Input[tuple[Batch, In]], tuple[In, Batch]]
reveal_type(x.matrix_transpose())  # reveals: Transpose[Input[tuple[Batch, In]], tuple[In, Batch]]
reveal_type(sequence.transpose(1, 0, 2))  # reveals: Transpose[Input[tuple[Batch, Time, In]], tuple[Time, Batch, In]]
reveal_type(sequence.transpose(0, 2, 1))  # reveals: Transpose[Input[tuple[Batch, Time, In]], tuple[Batch, In, Time]]
reveal_type(scores.transpose(0, 2, 1, 3))  # reveals: Transpose[Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Time, Heads, Time]]
reveal_type(sequence.swapaxes(-1, -2))  # reveals: Transpose[Input[tuple[Batch, Time, In]], tuple[Batch, In, Time]]
reveal_type(sequence.swapaxes(0, 1))  # reveals: Transpose[Input[tuple[Batch, Time, In]], tuple[Time, Batch, In]]
reveal_type(scores.swapaxes(1, 2))  # reveals: Transpose[Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Time, Heads, Time]]
r: wy.Tensor[In, Batch, Time] = sequence.transpose((2, 0, 1))
#@ attention_of_projections
queries = sequence @ wy.Parameter.zeros((in_, emb))
keys = sequence @ wy.Parameter.zeros((in_, emb))
weights = (queries @ keys.mT * 0.25).softmax()
reveal_type(weights)  # reveals: Softmax[Multiply[Any, Any, tuple[Batch, Time, Time]], tuple[Batch, Time, Time]]
reveal_type(weights @ keys)  # reveals: MatMul[Softmax[Any, tuple[Batch, Time, Time]], MatMul[Any, Any, tuple[Batch, Time, Emb]], tuple[Batch, Time, Emb]]
#@ joined_axes_in_a_product
joined = x.concat(h0)
r: wy.Tensor[Batch, Out] = joined @ wy.Parameter.zeros((wy.Plus((in_, hid)), out))
#@ nested_products
r: wy.Tensor[Hid, Hid] = wh @ (wh @ (wh @ (wh @ (wh @ (wh @ (wh @ (wh @ wh)))))))
