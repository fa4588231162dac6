# ruff: noqa
# fmt: off
#@ float_node_as_index
table.index(vector)  # error: [call-overload] No overload variant of "index" of "Parameter" matches argument type "Input[tuple[In]]"
#@ float_array_as_index
table.index(numbers(3))  # error: [arg-type] Argument 1 to "index" of "Parameter" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"
#@ float_as_index
table.index(1.5)  # error: [call-overload] No overload variant of "index" of "Parameter" matches argument type "float"
#@ rank_of_the_lookup
r: wy.Tensor[Batch, Emb] = table.index(tokens)  # error: [arg-type] Argument 1 to "index" of "Parameter" has incompatible type "IndexInput[tuple[Batch, Time]]"
#@ lookup_in_an_input
x.index(labels)  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "index"
#@ lookup_in_a_product
(table @ table.T).index(labels)  # error: [attr-defined] "MatMul[Parameter[tuple[Words, Emb]], Transpose[Any, tuple[Emb, Words]], tuple[Words, Words]]" has no attribute "index"
#@ lookup_by_a_lookup
table.index(table.index(labels))  # error: [call-overload] No overload variant of "index" of "Parameter" matches argument type "Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch]], tuple[Batch, Emb]]"
#@ lookup_in_a_scalar
scale.index(labels)  # error: [misc] Invalid self argument "Parameter[tuple[()]]" to attribute function "index"
#@ indices_have_no_tanh
labels.tanh()  # error: [attr-defined] "IndexInput[tuple[Batch]]" has no attribute "tanh"
#@ indices_have_no_backward
tokens.backward()  # error: [attr-defined] "IndexInput[tuple[Batch, Time]]" has no attribute "backward"
#@ indices_have_no_softmax
x.argmax(-1).softmax()  # error: [attr-defined] "ArgMax[tuple[Batch]]" has no attribute "softmax"
#@ take_by_a_node
x.take(vector)  # error: [call-overload] No overload variant of "take" of "Node" matches argument type "Input[tuple[In]]"
#@ take_result
r: wy.Tensor[Batch, Out] = x.take(labels, axis=0)  # error: [assignment] Incompatible types in assignment (expression has type "Index[Input[tuple[Batch, In]], IndexNode[tuple[Batch]], tuple[Batch, In]]"
#@ floats_set_on_indices
labels.set(numbers(4))  # error: [arg-type] Argument 1 to "set" of "IndexInput" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"
#@ float_set_on_indices
labels.set(1.5)  # error: [arg-type] Argument 1 to "set" of "IndexInput" has incompatible type "float"
#@ list_of_floats_set_on_indices
labels.set([0.5, 1.0, 2.0, 0.0])  # error: [list-item] List item 0 has incompatible type "float"
#@ node_set_on_indices
labels.set(x)  # error: [arg-type] Argument 1 to "set" of "IndexInput" has incompatible type "Input[tuple[Batch, In]]"
#@ index_input_of_floats
wy.IndexInput(numbers(3))  # error: [arg-type] Argument 1 to "IndexInput" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"
#@ index_input_is_no_node
def f(v: wy.Node) -> wy.Node:
    return v
f(labels)  # error: [arg-type] Argument 1 to "f" has incompatible type "IndexInput[tuple[Batch]]"
#@ input_is_no_index_input
def f(v: wy.IndexNode) -> None: ...
f(x)  # error: [arg-type] Argument 1 to "f" has incompatible type "Input[tuple[Batch, In]]"
#@ part_of_indices_result
r: wy.IndexTensor[Batch] = tokens[0]  # error: [assignment] Incompatible types in assignment (expression has type "IndexSlice[tuple[Time]]", variable has type "IndexNode[tuple[Batch]]")
#@ reshaped_indices_result
r: wy.IndexTensor[Batch, Time] = tokens.reshape((time, batch))  # error: [assignment] Incompatible types in assignment (expression has type "IndexReshape[tuple[Any]]", variable has type "IndexNode[tuple[Batch, Time]]")
#@ index_value_is_no_float_array
value: NDArray[np.floating[Any]] = labels.value  # error: [assignment] Incompatible types in assignment (expression has type "ndarray[tuple[Any, ...], dtype[integer[Any]]]"
#@ embedding_module_of_floats
wy.nn.Embedding(words, emb)(vector)  # error: [arg-type] Argument 1 to "__call__" of "Embedding" has incompatible type "Input[tuple[In]]"
