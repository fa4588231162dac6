# ruff: noqa
# fmt: off
#@ attention_by_query_key_and_value
h = table.index(tokens)
wy.nn.MultiHeadAttention(emb, 3)(h, h, h)  # error: [call-overload] No overload variant of "__call__" of "MultiHeadAttention" matches argument types "Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch, Time]],
#@ attention_of_another_width
wy.nn.MultiHeadAttention(emb, 3)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "MultiHeadAttention" has incompatible type "Input[tuple[Batch, Time, In]]"; expected "Node[Any, tuple[Batch, Time, Emb]]"
#@ attention_to_keys_of_another_width
h = table.index(tokens)
wy.nn.MultiHeadAttention(emb, 3, causal=False)(h, key=sequence)  # error: [arg-type] Argument "key" to "__call__" of "MultiHeadAttention" has incompatible type "Input[tuple[Batch, Time, In]]"; expected "Node[Any, tuple[Batch, Time,
#@ attention_with_a_mask_of_other_axes
h = table.index(tokens)
mask = wy.Input(dims=(batch, time, source)) > 0.0
wy.nn.MultiHeadAttention(emb, 3)(h, mask)  # error: [misc] Cannot infer value of type parameter "T" of "__call__" of "MultiHeadAttention"
#@ attention_with_a_key_mask_of_other_axes
h = table.index(tokens)
mask = wy.Input(dims=(batch, source)) > 0.0
wy.nn.MultiHeadAttention(emb, 3)(h, key_mask=mask)  # error: [misc] Cannot infer value of type parameter "T" of "__call__" of "MultiHeadAttention"
#@ attention_with_a_key_mask_of_pairs
h = table.index(tokens)
mask = wy.Input(dims=(batch, time, time)) > 0.0
wy.nn.MultiHeadAttention(emb, 3)(h, key_mask=mask)  # error: [arg-type] Argument "key_mask" to "__call__" of "MultiHeadAttention" has incompatible type "Greater[Input[tuple[Batch, Time, Time]], Constant[Any], tuple[Batch,
#@ attention_with_a_mask_by_name
h = table.index(tokens)
wy.nn.MultiHeadAttention(emb, 3)(h, "causal")  # error: [call-overload] No overload variant of "__call__" of "MultiHeadAttention" matches argument types "Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch, Time]],
#@ attention_to_values_of_other_keys
h = table.index(tokens)
memory = wy.Input(dims=(batch, source, emb))
wy.nn.MultiHeadAttention(emb, 3, causal=False)(h, key=memory, value=h)  # error: [misc] Cannot infer value of type parameter "Keys" of "__call__" of "MultiHeadAttention"
#@ attention_heads_in_part
wy.nn.MultiHeadAttention(emb, 1.5)  # error: [arg-type] Argument 2 to "MultiHeadAttention" has incompatible type "float"; expected "Dim | int"
#@ attention_width_by_name
wy.nn.MultiHeadAttention("emb", 3)  # error: [arg-type] Argument 1 to "MultiHeadAttention" has incompatible type "str"; expected "Dim | Unnamed[Dim]"
#@ attention_with_pytorchs_options
wy.nn.MultiHeadAttention(emb, 3, batch_first=True)  # error: [call-arg] Unexpected keyword argument "batch_first" for "MultiHeadAttention"
#@ attention_result_of_other_axes
r: wy.Tensor[Batch, Time, Hid] = wy.nn.MultiHeadAttention(emb, 3)(table.index(tokens))  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Time, Emb]]", variable has type "Node[Any, tuple[Batch, Time, Hid]]")
#@ attention_result_as_a_pair
h, weights = wy.nn.MultiHeadAttention(emb, 3)(table.index(tokens)), 1
h.weights  # error: [attr-defined] "Node[Any, tuple[Batch, Time, Emb]]" has no attribute "weights"
#@ products_of_queries_and_values
q = wy.Input(dims=(batch, heads, time, key))
k = wy.Input(dims=(batch, heads, source, key))
q @ k  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, Heads, Time, Key]]" and "Input[tuple[Batch, Heads, Source, Key]]")
#@ weights_times_other_values
q = wy.Input(dims=(batch, heads, time, key))
k = wy.Input(dims=(batch, heads, source, key))
(q @ k.mT).softmax() @ q  # error: [operator] Unsupported operand types for @ ("Softmax[MatMul[Any, Any, tuple[Batch, Heads, Time, Source]], tuple[Batch, Heads, Time, Source]]" and
#@ scores_where_a_mask_of_other_axes
q = wy.Input(dims=(batch, time, key))
mask = wy.Input(dims=(batch, source, time)) > 0.0
wy.where(mask, q @ q.mT, -1e9)  # error: [misc] Cannot infer value of type parameter "Shape" of "where"
#@ scores_plus_a_mask_of_other_axes
q = wy.Input(dims=(batch, time, key))
bias = wy.Parameter.zeros((source, time))
q @ q.mT + bias  # error: [operator] Unsupported operand types for + ("MatMul[Input[tuple[Batch, Time, Key]], Transpose[Any, tuple[Batch, Key, Time]], tuple[Batch, Time, Time]]" and
#@ block_of_attention_of_another_width
h = table.index(tokens)
h = wy.nn.TransformerBlock(hid, emb, 3)(h)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Time, Hid]]", variable has type "Index[Parameter[tuple[Words, Emb]],
#@ attention_of_three_arguments_in_places
of_words = wy.Input(dims=(batch, time, emb))
wy.nn.MultiHeadAttention(emb, 3)(of_words, of_words, of_words)  # error: [call-overload] No overload variant of "__call__" of "MultiHeadAttention" matches argument types
