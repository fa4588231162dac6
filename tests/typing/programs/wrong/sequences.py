#@ gated_unit_of_a_matrix
wy.nn.GRU(in_, hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "GRU" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any,
#@ gated_unit_of_other_features
wy.nn.GRU(emb, hid)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "GRU" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ gated_unit_result_used_as_a_node
wy.nn.GRU(in_, hid)(sequence).tanh()  # error: [attr-defined] "GRUOutput[Batch, Time, Hid]" has no attribute "tanh"
#@ gated_cell_of_another_state
wy.nn.GRUCell(in_, hid)(x, y)  # error: [arg-type] Argument 2 to "__call__" of "GRUCell" has incompatible type "Input[tuple[Batch, Out]]"; expected
#@ stack_of_other_features
wy.nn.StackedLSTM(emb, hid, 2)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "StackedLSTM" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ stack_result
r: wy.Tensor[Batch, Time, In] = wy.nn.StackedGRU(in_, hid, 2)(sequence).sequence  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Time, Hid]]", variable has type
#@ bag_of_floats
wy.nn.EmbeddingBag(words, emb)(x)  # error: [arg-type] Argument 1 to "__call__" of "EmbeddingBag" has incompatible type "Input[tuple[Batch, In]]"; expected
#@ bag_result
r: wy.Tensor[Batch, Time, Emb] = wy.nn.EmbeddingBag(words, emb)(tokens)  # error: [arg-type] Argument 1 to "__call__" of "EmbeddingBag" has incompatible type "IndexInput[tuple[Batch, Time]]"; expected
#@ bag_of_an_unknown_mode
wy.nn.EmbeddingBag(words, emb, mode="median")  # error: [arg-type] Argument "mode" to "EmbeddingBag" has incompatible type "Literal['median']"
#@ segments_by_floats
wy.segment_sum(sequence, vector, 3)  # error: [arg-type] Argument 2 to "segment_sum" has incompatible type "Input[tuple[In]]"; expected "IndexNode[tuple[Batch]] |
#@ segments_of_other_rows
wy.segment_max(h0.T, labels, 3)  # error: [misc] Cannot infer value of type parameter "N" of "segment_max"
#@ attention_to_other_features
h = table.index(tokens)
wy.nn.MultiHeadAttention(emb, 3, causal=False)(h, key=sequence)  # error: [arg-type] Argument "key" to "__call__" of "MultiHeadAttention" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ attention_value_without_key
h = table.index(tokens)
wy.nn.MultiHeadAttention(emb, 3)(h, value=h)  # error: [call-overload] No overload variant of "__call__" of "MultiHeadAttention" matches argument types
#@ gated_feed_forward_of_other_features
wy.nn.GatedFeedForward(emb, hid)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "GatedFeedForward" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ class_weights_by_another_name
wy.losses.cross_entropy(x @ w, labels, class_weight=numbers(3))  # error: [call-overload] No overload variant of "cross_entropy" matches argument types
#@ quantile_of_other_shape
wy.losses.quantile(x @ w, x, level=0.9)  # error: [misc] Cannot infer value of type parameter "Axes" of "quantile"
#@ degrees_of_freedom_left_out
wy.losses.student_t_nll(x @ w, y, y)  # error: [call-overload] No overload variant of "student_t_nll" matches argument types
