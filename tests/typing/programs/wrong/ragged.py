# ruff: noqa
# fmt: off
#@ ragged_size
Clicks(3)  # error: [call-arg] Too many arguments for "Clicks"
#@ ragged_result_of_a_lookup
r: wy.Tensor[Batch, Emb] = table.index(clicked)  # error: [arg-type] Argument 1 to "index" of "Parameter" has incompatible type "IndexInput[tuple[Batch, Clicks]]";
#@ ragged_result_of_a_bag
r: wy.Tensor[Batch, Clicks] = table.index(clicked).sum(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "Sum[Index[Any, Any, tuple[Batch, Clicks,
#@ ragged_rows_summed
r: wy.Tensor[Batch, In] = visits.sum(axis=-1)  # error: [assignment] Incompatible types in assignment (expression has type "Sum[Input[tuple[Batch, Clicks, In]],
#@ ragged_two_axes
dwell + purchases  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, Clicks]]" and "Input[tuple[Batch, Purchases]]")
#@ ragged_two_axes_of_entries
visits * purchases.expand_dims(-1)  # error: [operator] Unsupported operand types for * ("Input[tuple[Batch, Clicks, In]]" and "Reshape[Input[tuple[Batch,
#@ ragged_times_time
visits + sequence  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, Clicks, In]]" and "Input[tuple[Batch, Time, In]]")
#@ ragged_product
visits @ w2  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, Clicks, In]]" and "Parameter[tuple[Hid, Out]]")
#@ ragged_product_result
r: wy.Tensor[Batch, Clicks, In] = visits @ w  # error: [assignment] Incompatible types in assignment (expression has type "MatMul[Any, Parameter[tuple[In, Out]],
#@ ragged_float_lookup
table.index(dwell)  # error: [call-overload] No overload variant of "index" of "Parameter" matches argument type "Input[tuple[Batch, Clicks]]"
#@ ragged_tanh_of_integers
clicked.tanh()  # error: [attr-defined] "IndexInput[tuple[Batch, Clicks]]" has no attribute "tanh"
#@ ragged_lengths_of_a_row
r: wy.IndexTensor[Batch, Clicks] = wy.row_lengths(clicked)  # error: [assignment] Incompatible types in assignment (expression has type "IndexNode[tuple[Batch]]", variable has
#@ ragged_positions_of_rows
r: wy.IndexTensor[Batch] = wy.entry_positions(visits)  # error: [assignment] Incompatible types in assignment (expression has type "IndexNode[tuple[Batch, Clicks]]",
#@ ragged_first_result
r: wy.Tensor[Batch] = wy.first_entry(visits)  # error: [arg-type] Argument 1 to "first_entry" has incompatible type "Input[tuple[Batch, Clicks, In]]"; expected
#@ ragged_last_of_integers
wy.last_entry(clicked)  # error: [arg-type] Argument 1 to "last_entry" has incompatible type "IndexInput[tuple[Batch, Clicks]]"; expected
#@ ragged_entry_at_a_float
wy.entry_at(visits, 1.5)  # error: [call-overload] No overload variant of "entry_at" matches argument types "Input[tuple[Batch, Clicks, In]]", "float"
#@ ragged_lengths_of_a_matrix
wy.row_lengths(x)  # error: [type-var] Value of type variable "Along" of "row_lengths" cannot be "In"
#@ ragged_positions_of_a_vector
wy.entry_positions(vector)  # error: [arg-type] Argument 1 to "entry_positions" has incompatible type "Input[tuple[In]]"; expected
#@ ragged_first_of_a_sequence
wy.first_entry(sequence)  # error: [type-var] Value of type variable "Along" of "first_entry" cannot be "Time"
#@ ragged_loop_of_a_number
wy.row_scan(3, 0.0, visits)  # error: [call-overload] No overload variant of "row_scan" matches argument types "int", "float", "Input[tuple[Batch, Clicks, In]]"
#@ ragged_bag_of_floats
wy.nn.EmbeddingBag(words, emb)(dwell)  # error: [arg-type] Argument 1 to "__call__" of "EmbeddingBag" has incompatible type "Input[tuple[Batch, Clicks]]";
#@ ragged_bag_result
r: wy.Tensor[Batch, Clicks, Emb] = wy.nn.EmbeddingBag(words, emb)(clicked)  # error: [arg-type] Argument 1 to "__call__" of "EmbeddingBag" has incompatible type "IndexInput[tuple[Batch,
#@ ragged_linear_of_another_width
wy.nn.Linear(emb, hid)(visits)  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "Input[tuple[Batch, Clicks, In]]";
#@ ragged_softmax_result
r: wy.Tensor[Batch] = dwell.softmax(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "Softmax[Input[tuple[Batch, Clicks]],
#@ ragged_cumulative_result
r: wy.Tensor[Batch, In] = visits.cumsum(axis=1)  # error: [assignment] Incompatible types in assignment (expression has type "CumSum[tuple[Batch, Clicks, In]]",
#@ ragged_texts
clicked.set("abc")  # error: [arg-type] Argument 1 to "set" of "IndexInput" has incompatible type "str"; expected "Indices"
#@ ragged_argument
def pooled(entries: wy.Tensor[Batch, Clicks, In]) -> wy.Tensor[Batch, In]:
    return entries.mean(axis=1)
pooled(sequence)  # error: [arg-type] Argument 1 to "pooled" has incompatible type "Input[tuple[Batch, Time, In]]"; expected "Node[Any, tuple[Batch, Clicks, In]]"
#@ ragged_return
def first(entries: wy.Tensor[Batch, Clicks, In]) -> wy.Tensor[Batch, Clicks]:
    return wy.first_entry(entries)  # error: [arg-type] Argument 1 to "first_entry" has incompatible type "Node[Any, tuple[Batch, Clicks, In]]"; expected
#@ ragged_offsets_missing
wy.RaggedArray([1, 2, 3])  # error: [type-var] Value of type variable "A" of "RaggedArray" cannot be "list[int]"
#@ ragged_row_by_name
wy.RaggedArray.of_rows([[1], [2, 3]])["first"]  # error: [call-overload] No overload variant of "__getitem__" of "RaggedArray" matches argument type "str"
#@ ragged_rows_of_a_number
wy.RaggedArray.of_rows(3)  # error: [arg-type] Argument 1 to "of_rows" of "RaggedArray" has incompatible type "int"; expected "Sequence[Any]"
#@ ragged_max_result
r: wy.Tensor[Batch, wy.One] = visits.max(axis=1, keepdims=True)  # error: [assignment] Incompatible types in assignment (expression has type "Max[Input[tuple[Batch, Clicks, In]],
#@ ragged_joined_in_another_order
joined = wy.concatenate((dwell, purchases), axis=1)
r: wy.Tensor[Batch, wy.Joined[Purchases, Clicks]] = joined  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Joined[Clicks, Purchases]]]",
#@ ragged_joined_and_a_part
wy.concatenate((dwell, purchases), axis=1) + dwell  # error: [operator] Unsupported operand types for + ("Node[Any, tuple[Batch, Joined[Clicks, Purchases]]]" and
#@ ragged_joined_of_a_size
wy.Joined[Clicks, Purchases](3)  # error: [call-arg] Too many arguments for "Joined"
#@ ragged_pairs_of_a_matrix
wy.row_pairs(x)  # error: [type-var] Value of type variable "Along" of "row_pairs" cannot be "In"
#@ ragged_pairs_and_entries
left, right = wy.row_pairs(visits)
left * visits  # error: [operator] Unsupported operand types for * ("Node[Any, tuple[Batch, Pairs[Clicks], In]]" and "Input[tuple[Batch, Clicks, In]]")
#@ ragged_pairs_result
left, right = wy.row_pairs(dwell)
r: wy.Tensor[Batch, Clicks] = left * right  # error: [assignment] Incompatible types in assignment (expression has type "Multiply[Node[Any, tuple[Batch, Pairs[Clicks]]],
#@ ragged_pairs_of_integers_as_floats
one, other = wy.row_pairs(clicked)
one.tanh()  # error: [attr-defined] "IndexNode[tuple[Batch, Pairs[Clicks]]]" has no attribute "tanh"
