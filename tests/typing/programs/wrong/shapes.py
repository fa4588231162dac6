# ruff: noqa
# fmt: off
#@ reshape_result
r: wy.Tensor[Batch, Time] = x.reshape((batch, out))  # error: [assignment] Incompatible types in assignment (expression has type "Reshape[Input[tuple[Batch, In]], tuple[Any]]"
#@ reshape_result_by_arguments
r: wy.Tensor[Batch, Time] = x.reshape(batch, out)  # error: [arg-type] Argument 2 to "reshape" of "Node" has incompatible type "Out"
#@ reshape_conflict
r: wy.Tensor[Batch, Out] = x.reshape((batch, in_))  # error: [assignment] Incompatible types in assignment (expression has type "Reshape[Input[tuple[Batch, In]], tuple[Any]]"
#@ reshape_rank
r: wy.Tensor[Batch, Time, Key] = x.reshape((batch, -1))  # error: [assignment] Incompatible types in assignment (expression has type "Reshape[Input[tuple[Batch, In]], tuple[Batch, Any]]"
#@ row_result
r: wy.Tensor[Batch] = x[0]  # error: [assignment] Incompatible types in assignment (expression has type "Slice[Input[tuple[Batch, In]], tuple[In]]", variable has type "Node[Any, tuple[Batch]]")
#@ row_of_a_scalar
scale[0]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "int"
#@ index_by_a_string
x["batch"]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "str"
#@ index_by_a_node
x[x > 0]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]"
#@ index_by_a_mask
x[x > 0.0]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "Greater[Input[tuple[Batch, In]],
#@ last_step_result
r: wy.Tensor[Batch, Time] = sequence[:, -1]  # error: [assignment] Incompatible types in assignment (expression has type "Slice[Input[tuple[Batch, Time, In]], tuple[Batch, In]]"
#@ concat_of_other_batch
h0.concat(wy.Input(dims=(time, in_)))  # error: [arg-type] Argument 1 to "concat" of "Node" has incompatible type "Input[tuple[Time, In]]"
#@ concat_of_a_number
h0.concat(1.0)  # error: [call-overload] No overload variant of "concat" of "Node" matches argument type "float"
#@ concat_then_wrong_product
h0.concat(x) @ wh  # error: [operator] Unsupported operand types for @ ("Concatenate[tuple[Input[tuple[Batch, Hid]], Input[tuple[Batch, In]]], tuple[Batch, Plus[Hid, In]]]" and "Parameter[tuple[Hid, Hid]]")
#@ stack_of_other_shapes
wy.stack([x, y])  # error: [list-item] List item 0 has incompatible type "Input[tuple[Batch, In]]"
#@ stack_of_one_node
wy.stack(x)  # error: [call-overload] No overload variant of "stack" matches argument type "Input[tuple[Batch, In]]"
#@ concatenate_then_wrong_product
wy.concatenate([x, x2]) @ w2  # error: [operator] Unsupported operand types for @ ("Concatenate[Any, tuple[Any, In]]" and "Parameter[tuple[Hid, Out]]")
#@ concatenate_of_indices
wy.concatenate([labels, labels])  # error: [list-item] List item 0 has incompatible type "IndexInput[tuple[Batch]]"
#@ broadcast_to_result
r: wy.Tensor[Batch, Out] = vector.broadcast_to((batch, in_))  # error: [arg-type] Argument 1 to "broadcast_to" of "Node" has incompatible type "tuple[Batch, In]"
#@ squeeze_result
r: wy.Tensor[Batch, In] = x.sum(axis=-1, keepdims=True).squeeze(-1)  # error: [assignment] Incompatible types in assignment (expression has type "Reshape[Sum[Any, tuple[Batch, One]], tuple[Batch]]"
#@ ravel_result
r: wy.Tensor[Batch, In] = x.ravel()  # error: [assignment] Incompatible types in assignment (expression has type "Reshape[Input[tuple[Batch, In]], tuple[Any]]", variable has type "Node[Any, tuple[Batch, In]]")
#@ dims_read_back
size: In = x.dims[0]  # error: [assignment] Incompatible types in assignment (expression has type "Batch", variable has type "In")
#@ dims_out_of_range
x.dims[2]  # error: [misc] Tuple index out of range
#@ iteration_over_a_scalar
for row in scale: pass  # error: [misc] Invalid self argument "Parameter[tuple[()]]" to attribute function "__iter__"
#@ length_as_a_dim
length: Batch = len(x)  # error: [assignment] Incompatible types in assignment (expression has type "int", variable has type "Batch")
#@ first_step_in_another_product
sequence[:, 0] @ w2  # error: [operator] Unsupported operand types for @ ("Slice[Input[tuple[Batch, Time, In]], tuple[Batch, In]]" and "Parameter[tuple[Hid, Out]]")
#@ matrix_transpose_in_another_product
sequence.mT @ w  # error: [operator] Unsupported operand types for @ ("Transpose[Input[tuple[Batch, Time, In]], tuple[Batch, In, Time]]" and "Parameter[tuple[In, Out]]")
