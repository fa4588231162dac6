# ruff: noqa
# fmt: off
#@ softmax_of_a_scalar
scale.softmax()  # error: [misc] Invalid self argument "Parameter[tuple[()]]" to attribute function "softmax" with type "Callable[[Shaped[L,
#@ log_softmax_of_a_loss
(x @ w - y).square().mean().log_softmax()  # error: [misc] Invalid self argument "Mean[Square[Any, tuple[Batch, Out]], tuple[()]]" to attribute function "log_softmax"
#@ softmax_along_a_dimension_of_another_library
x.softmax(dim=-1)  # error: [call-arg] Unexpected keyword argument "dim" for "softmax" of "Node"
#@ swapped_axes_of_a_vector
vector.swapaxes(0, 1)  # error: [misc] Invalid self argument "Input[tuple[In]]" to attribute function "swapaxes" with type "Callable[[Shaped[L,
#@ swapped_axes_of_a_scalar
scale.swapaxes(0, 1)  # error: [misc] Invalid self argument "Parameter[tuple[()]]" to attribute function "swapaxes" with type "Callable[[Shaped[L,
#@ one_swapped_axis
x.swapaxes(0)  # error: [call-overload] No overload variant of "swapaxes" of "Node" matches argument type "int"
#@ mean_over_the_second_result
r: wy.Tensor[Batch, Time] = sequence.mean(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "Mean[Input[tuple[Batch, Time, In]], tuple[Batch,
#@ largest_over_the_second_result
r: wy.Tensor[Batch, Time, In] = sequence.max(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "Max[Input[tuple[Batch, Time, In]], tuple[Batch, In]]",
#@ pooled_over_time_then_wrong_product
sequence.mean(axis=1) @ w2  # error: [operator] Unsupported operand types for @
#@ sum_over_two_result
r: wy.Tensor[Batch] = sequence.sum(axis=(0, 1))  # error: [assignment] Incompatible types in assignment (expression has type "Sum[Input[tuple[Batch, Time, In]], tuple[In]]",
#@ kept_first_axis_result
r: wy.Tensor[Batch, wy.One] = x.mean(axis=0, keepdims=True)  # error: [assignment] Incompatible types in assignment (expression has type "Mean[Input[tuple[Batch, In]], tuple[One, In]]",
#@ second_axis_of_a_vector
r: wy.Tensor[()] = sequence.sum(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "Sum[Input[tuple[Batch, Time, In]], tuple[Batch, In]]",
#@ positions_along_the_second
r: wy.IndexTensor[Batch, Time] = sequence.argmax(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "ArgMax[tuple[Batch, In]]", variable has type
#@ sum_along_a_dimension_of_another_library
x.sum(dim=1)  # error: [call-overload] Unexpected keyword argument "dim" for overloaded function "sum" of "Node"
#@ mean_kept_by_another_name
x.mean(axis=-1, keepdim=True)  # error: [call-overload] Unexpected keyword argument "keepdim" for overloaded function "mean" of "Node"; did you mean "keepdims"?
#@ largest_of_two
x.max(x2)  # error: [call-overload] No overload variant of "max" of "Node" matches argument type "Input[tuple[Batch, In]]"
#@ variance_by_a_flag
x.var(axis=-1, unbiased=True)  # error: [call-overload] Unexpected keyword argument "unbiased" for overloaded function "var" of "Node"
#@ sum_of_python
total: wy.Tensor[()] = sum([x, x2])  # error: [assignment] Incompatible types in assignment (expression has type "int", variable has type "Node[Any, tuple[()]]")
#@ new_first_axis_result
r: wy.Tensor[Batch, wy.One, In] = x.expand_dims(0)  # error: [assignment] Incompatible types in assignment (expression has type "Reshape[Input[tuple[Batch, In]], tuple[One, Batch,
#@ new_axis_by_none_result
r: wy.Tensor[Batch, In, wy.One] = x[:, None]  # error: [assignment] Incompatible types in assignment (expression has type "Slice[Input[tuple[Batch, In]], tuple[Batch, One,
#@ new_axis_without_a_place
x.expand_dims()  # error: [call-overload] All overload variants of "expand_dims" of "Node" require at least one argument
#@ squeezed_by_name
x.squeeze("batch")  # error: [arg-type] Argument 1 to "squeeze" of "Node" has incompatible type "str"; expected "int | Sequence[int] | None"
#@ unsqueezed_by_another_name
x.unsqueeze(0)  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "unsqueeze"
#@ viewed_by_another_name
x.view(-1)  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "view"
#@ permuted_by_another_name
sequence.permute(0, 2, 1)  # error: [attr-defined] "Input[tuple[Batch, Time, In]]" has no attribute "permute"
#@ part_of_the_second_axis_result
r: wy.Tensor[Batch, In] = sequence[:, 1:3]  # error: [assignment] Incompatible types in assignment (expression has type "Slice[Input[tuple[Batch, Time, In]], tuple[Batch, Any,
#@ row_of_all_result
r: wy.Tensor[Batch, In] = sequence[0, :]  # error: [assignment] Incompatible types in assignment (expression has type "Slice[Input[tuple[Batch, Time, In]], tuple[Time,
#@ feature_of_each_step_result
r: wy.Tensor[Batch, In] = sequence[:, :, 0]  # error: [assignment] Incompatible types in assignment (expression has type "Slice[Input[tuple[Batch, Time, In]], tuple[Batch,
#@ part_by_a_float
x[0.5]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "float"
#@ stacked_along_the_second_then_wrong_product
wy.stack([x, x2], axis=1) @ w2  # error: [operator] Unsupported operand types for @
#@ stacked_arrays_and_words
wy.stack(["x", "y"])  # error: [list-item] List item 0 has incompatible type "str"; expected "Node[Any, FittingShape[Any]]"
#@ stacked_by_arguments
wy.stack(x, x2)  # error: [call-overload] No overload variant of "stack" matches argument types "Input[tuple[Batch, In]]", "Input[tuple[Batch, In]]"
#@ stacked_along_a_dimension_of_another_library
wy.stack([x, x2], dim=0)  # error: [call-overload] Unexpected keyword argument "dim" for overloaded function "stack"
#@ joined_along_the_second_then_wrong_product
wy.concatenate([sequence, sequence], axis=1) @ w2  # error: [operator] Unsupported operand types for @
#@ joined_by_another_name
wy.cat([x, x2])  # error: [attr-defined] Module has no attribute "cat"
#@ einsum_then_wrong_product
wy.einsum("ij,jk->ik", x, w1) @ w  # error: [operator] Unsupported operand types for @
#@ einsum_of_scores_then_wrong_values
heads_of = wy.Input(dims=(batch, heads, time, key))
values = wy.Input(dims=(batch, heads, source, key))
wy.einsum("bhqd,bhkd->bhqk", heads_of, heads_of) @ values  # error: [operator] Unsupported operand types for @
#@ einsum_of_many_operands_is_a_node
values: NDArray[np.float32] = wy.einsum("ij,jk,kl->il", x, w1, w2)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, Any]", variable has type
#@ einsum_without_subscripts
wy.einsum(x, w)  # error: [call-overload] No overload variant of "einsum" matches argument types "Input[tuple[Batch, In]]", "Parameter[tuple[In, Out]]"
#@ einsum_of_indices
wy.einsum("ij,jk->ik", tokens, w)  # error: [call-overload] No overload variant of "einsum" matches argument types "str", "IndexInput[tuple[Batch, Time]]",
#@ split_in_parts_of_text
x.split("2")  # error: [arg-type] Argument 1 to "split" of "Node" has incompatible type "str"; expected "int | Sequence[int]"
#@ split_is_a_list
x.split(2).sum()  # error: [attr-defined] "list[Slice[Input[tuple[Batch, In]], tuple[Any, In]]]" has no attribute "sum"
#@ axes_of_three_parts
wy.Plus(in_, hid)  # error: [call-overload] No overload variant of "Plus" matches argument types "In", "Hid"
#@ axis_of_names
wy.Plus(("in", "hid"))  # error: [type-var] Value of type variable "First" of "Plus" cannot be "str"
#@ axis_of_a_float_size
In(7.5)  # error: [arg-type] Argument 1 to "In" has incompatible type "float"; expected "SupportsIndex | None"
#@ axis_of_a_name
In("seven")  # error: [arg-type] Argument 1 to "In" has incompatible type "str"; expected "SupportsIndex | None"
#@ axis_multiplied_by_a_fraction
in_ * 2.5  # error: [operator] No overload variant of "__mul__" of "Dim" matches argument type "float"
#@ buffer_of_other_axes
mean: wy.Buffer[tuple[Out]] = wy.Buffer(numbers(7), dims=(In,))  # error: [arg-type] Argument "dims" to "Buffer" has incompatible type "tuple[type[In]]"; expected "tuple[int | integer[Any], int
#@ buffer_of_text
wy.Buffer("zeros")  # error: [call-overload] No overload variant of "Buffer" matches argument type "str"
#@ buffer_without_a_value
wy.Buffer(dims=(In,))  # error: [call-overload] No overload variant of "Buffer" matches argument type "tuple[type[In]]"
#@ buffer_of_a_node
wy.Buffer(x.mean(axis=0))  # error: [call-overload] No overload variant of "Buffer" matches argument type "Mean[Input[tuple[Batch, In]], tuple[In]]"
#@ gradient_of_a_buffer
wy.Buffer(0.0).gradient  # error: [attr-defined] "Buffer[tuple[()]]" has no attribute "gradient"
#@ parameter_by_its_shape
wy.Parameter((7, 3), name=3)  # error: [call-overload] No overload variant of "Parameter" matches argument types "tuple[int, int]", "int"
#@ zeros_by_arguments
wy.Parameter.zeros(7, 3)  # error: [call-overload] No overload variant of "zeros" of "Parameter" matches argument types "int", "int"
#@ input_of_a_shape
wy.Input(shape=(4, 7))  # error: [call-overload] Unexpected keyword argument "shape" for overloaded function "Input"
#@ input_set_to_a_string
x.set("data")  # error: [arg-type] Argument 1 to "set" of "Input" has incompatible type "str"; expected "Values"
#@ input_set_to_a_node
x.set(x2)  # error: [arg-type] Argument 1 to "set" of "Input" has incompatible type "Input[tuple[Batch, In]]"; expected "Values"
#@ constant_that_is_set
wy.Constant(2.0).set(3.0)  # error: [attr-defined] "Constant[tuple[()]]" has no attribute "set"
#@ value_assigned
x.value = array  # error: [misc] Property "value" defined in "Node" is read-only
#@ name_of_a_node_is_no_method
x.name()  # error: [operator] "str" not callable
#@ shape_as_a_method
x.shape()  # error: [operator] "tuple[int, ...]" not callable
#@ node_of_numpy
np.sum(x)  # error: [call-overload] No overload variant of "sum" matches argument type "Input[tuple[Batch, In]]"
#@ numpy_stack_of_nodes
np.stack([x, x2])  # error: [arg-type] Argument 1 to "stack" has incompatible type "list[Input[tuple[Batch, In]]]"; expected
#@ dtype_by_a_method
x.float()  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "float"
#@ number_of_a_node
x.sum().item()  # error: [attr-defined] "Sum[Input[tuple[Batch, In]], tuple[()]]" has no attribute "item"
#@ converted_to_an_array
x.numpy()  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "numpy"
#@ clone_of_a_node
x.clone()  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "clone"
#@ random_index_of_floats
wy.random.index(20.5, (batch,))  # error: [call-overload] No overload variant of "index" matches argument types "float", "tuple[Batch]"
#@ random_index_result
r: wy.IndexTensor[Time] = wy.random.index(20, (batch,))  # error: [arg-type] Argument 2 to "index" has incompatible type "tuple[Batch]"; expected "tuple[int | integer[Any], int |
#@ where_without_nodes_in_a_module_of_numpy
np.where(x > 0, x, x2)  # error: [call-overload] No overload variant of "where" matches argument types "Greater[Input[tuple[Batch, In]], Constant[Any],
