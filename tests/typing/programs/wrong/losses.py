# ruff: noqa
# fmt: off
#@ backward_of_a_matrix
(x @ w).backward()  # error: [call-arg] Missing named argument "gradient" for "backward" of "Node"
#@ backward_of_a_row_sum
x.sum(axis=-1).backward()  # error: [call-arg] Missing named argument "gradient" for "backward" of "Node"
#@ backward_of_losses_for_each
(x @ w).cross_entropy(labels, reduction="none").backward()  # error: [call-arg] Missing named argument "gradient" for "backward" of "Node"
#@ backward_by_a_string
x.sum().backward("1")  # error: [call-overload] No overload variant of "backward" of "Node" matches argument type "str"
#@ backward_by_a_node
(x @ w).backward(gradient=x @ w)  # error: [arg-type] Argument "gradient" to "backward" of "Node" has incompatible type "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]"
#@ backward_of_an_input
x.backward()  # error: [call-arg] Missing named argument "gradient" for "backward" of "Node"
#@ cross_entropy_of_floats
(x @ w).cross_entropy(vector)  # error: [call-overload] No overload variant of "cross_entropy" of "Node" matches argument type "Input[tuple[In]]"
#@ cross_entropy_of_other_batch
classes = wy.IndexInput(dims=(time,))
(x @ w).cross_entropy(classes)  # error: [arg-type] Argument 1 to "cross_entropy" of "Node" has incompatible type "IndexInput[tuple[Time]]"
#@ cross_entropy_of_other_rank
(x @ w).cross_entropy(tokens)  # error: [arg-type] Argument 1 to "cross_entropy" of "Node" has incompatible type "IndexInput[tuple[Batch, Time]]"
#@ cross_entropy_of_float_array
(x @ w).cross_entropy(numbers(4))  # error: [arg-type] Argument 1 to "cross_entropy" of "Node" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"
#@ misspelled_reduction
(x @ w).cross_entropy(labels, reduction="avg")  # error: [call-overload] No overload variant of "cross_entropy" of "Node" matches argument types "IndexInput[tuple[Batch]]", "str"
#@ predictions_of_a_product
(x @ w).predictions()  # error: [attr-defined] "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" has no attribute "predictions"
#@ predictions_result
r: wy.Tensor[Batch, In] = (x @ w).cross_entropy(labels).predictions()  # error: [assignment] Incompatible types in assignment (expression has type "Softmax[Any, tuple[Batch, Out]]", variable has type "Node[Any, tuple[Batch, In]]")
#@ mse_of_other_shape
wy.losses.mse(x @ w, x)  # error: [misc] Cannot infer value of type parameter "Axes" of "mse"
#@ mse_of_indices
wy.losses.mse(x @ w, labels)  # error: [call-overload] No overload variant of "mse" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]", "IndexInput[tuple[Batch]]"
#@ scalar_of_a_loss_for_each
loss: wy.Tensor[()] = (x @ w).cross_entropy(labels, reduction="none")  # error: [assignment] Incompatible types in assignment (expression has type "CrossEntropy[MatMul[Any, Any, tuple[Batch, Out]], tuple[Batch]]"
#@ squared_error_of_other_shape
loss = (x @ w - x).square().mean()  # error: [operator] Unsupported operand types for - ("MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" and "Input[tuple[Batch, In]]")
#@ list_of_scalars_gets_a_matrix
terms: list[wy.Tensor[()]] = []
terms.append(x @ w)  # error: [arg-type] Argument 1 to "append" of "list" has incompatible type "MatMul[Input[tuple[Batch, In]], Any, tuple[Batch, Out]]"
#@ total_of_a_loop_gets_a_matrix
total: wy.Tensor[()] = scale
for node in [x, x2]:
    total = total + node  # error: [assignment] Incompatible types in assignment (expression has type "Add[Any, Input[tuple[Batch, In]], tuple[Batch, In]]", variable has type "Node[Any, tuple[()]]")
#@ grad_by_a_number
wy.grad(x.sum(), 3)  # error: [call-overload] No overload variant of "grad" matches argument types "Sum[Input[tuple[Batch, In]], tuple[()]]", "int"
#@ optimizer_of_nodes
wy.optim.SGD([x, y], learning_rate=0.1)  # error: [list-item] List item 0 has incompatible type "Input[tuple[Batch, In]]"
