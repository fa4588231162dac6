# ruff: noqa
# fmt: off
#@ sum_result
r: wy.Tensor[Batch, In] = x.sum()  # error: [assignment] Incompatible types in assignment (expression has type "Sum[Input[tuple[Batch, In]], tuple[()]]", variable has type "Node[Any, tuple[Batch, In]]")
#@ sum_over_the_last_result
r: wy.Tensor[In] = x.sum(axis=-1)  # error: [assignment] Incompatible types in assignment (expression has type "Sum[Input[tuple[Batch, In]], tuple[Batch]]", variable has type "Node[Any, tuple[In]]")
#@ mean_over_the_first_result
r: wy.Tensor[Batch] = x.mean(axis=0)  # error: [assignment] Incompatible types in assignment (expression has type "Mean[Input[tuple[Batch, In]], tuple[In]]", variable has type "Node[Any, tuple[Batch]]")
#@ kept_axis_result
r: wy.Tensor[Batch] = x.max(axis=-1, keepdims=True)  # error: [assignment] Incompatible types in assignment (expression has type "Max[Input[tuple[Batch, In]], tuple[Batch, One]]", variable has type "Node[Any, tuple[Batch]]")
#@ sum_over_an_axis_of_a_scalar
scale.sum(axis=-1)  # error: [arg-type] Argument "axis" to "sum" of "Node" has incompatible type "int"
#@ axis_by_name
x.sum(axis="batch")  # error: [arg-type] Argument "axis" to "sum" of "Node" has incompatible type "str"
#@ axis_by_dim
x.sum(axis=batch)  # error: [call-overload] No overload variant of "sum" of "Node" matches argument type "Batch"
#@ argmax_is_no_number
x.argmax(-1) * 2.0  # error: [operator] No overload variant of "__mul__" of "IndexNode" matches argument type "float"
#@ argmax_result
r: wy.IndexTensor[In] = x.argmax(-1)  # error: [assignment] Incompatible types in assignment (expression has type "ArgMax[tuple[Batch]]", variable has type "IndexNode[tuple[In]]")
#@ argmax_of_a_scalar
scale.argmax(0)  # error: [arg-type] Argument 1 to "argmax" of "Node" has incompatible type "int"; expected "None"
#@ logsumexp_result
r: wy.Tensor[Batch, In] = x.logsumexp(axis=-1)  # error: [assignment] Incompatible types in assignment (expression has type "LogSumExp[Input[tuple[Batch, In]], tuple[Batch]]"
#@ softmax_denominator_not_kept
r = scores.exp() / scores.exp().sum(axis=-1)  # error: [operator] Unsupported operand types for / ("Exp[Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads, Time, Time]]" and "Sum[Exp[Any, tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads, Time]]")
#@ row_means_added_to_a_row
x.mean(axis=1) + vector  # error: [operator] Unsupported operand types for + ("Mean[Input[tuple[Batch, In]], tuple[Batch]]" and "Input[tuple[In]]")
#@ column_declared_as_a_row
r: wy.Tensor[In] = x[:, 0]  # error: [assignment] (expression has type "Slice[Input[tuple[Batch, In]], tuple[Batch]]", variable has type "Node[Any, tuple[In]]")
#@ mean_over_features_then_added
sequence.mean(axis=-1) + x  # error: [operator] Unsupported operand types for + ("Mean[Input[tuple[Batch, Time, In]], tuple[Batch, Time]]" and "Input[tuple[Batch, In]]")
#@ sum_over_the_last_two_then_a_bias
scores.sum(axis=(-2, -1)) + b  # error: [operator] Unsupported operand types for + ("Sum[Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads]]" and "Parameter[tuple[Out]]")
#@ logsumexp_in_a_product
(x @ w).logsumexp(axis=-1) @ w  # error: [operator] Unsupported operand types for @ ("LogSumExp[MatMul[Any, Any, tuple[Batch, Out]], tuple[Batch]]" and "Parameter[tuple[In, Out]]")
#@ pooled_over_time_minus_targets
sequence.max(axis=1) - y  # error: [operator] Unsupported operand types for - ("Max[Input[tuple[Batch, Time, In]], tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
