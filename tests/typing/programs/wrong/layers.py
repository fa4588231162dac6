# ruff: noqa
# fmt: off
#@ size_in_part
wy.nn.Linear(7.0, 3)  # error: [arg-type] Argument 1 to "Linear" has incompatible type "float"; expected "Dim | Unnamed[Dim]"
#@ size_by_name
wy.nn.Linear("in", 3)  # error: [arg-type] Argument 1 to "Linear" has incompatible type "str"; expected "Dim | Unnamed[Dim]"
#@ axis_by_its_class
wy.nn.Linear(In, Out)  # error: [arg-type] Argument 1 to "Linear" has incompatible type "type[In]"; expected "Dim | Unnamed[Dim]"
#@ feed_forward_of_a_float_size
wy.nn.FeedForward(emb, 12.0)  # error: [arg-type] Argument 2 to "FeedForward" has incompatible type "float"; expected "Dim | Unnamed[Dim]"
#@ layer_of_a_shape
wy.nn.Linear((7, 3))  # error: [call-arg] Missing positional argument "out_features" in call to "Linear"
#@ layer_without_outputs
wy.nn.Linear(in_)  # error: [call-arg] Missing positional argument "out_features" in call to "Linear"
#@ bias_by_a_misspelled_option
wy.nn.Linear(in_, out, biased=False)  # error: [call-arg] Unexpected keyword argument "biased" for "Linear"; did you mean "bias"?
#@ initializer_by_its_name
wy.nn.Linear(in_, out, initializer="xavier")  # error: [arg-type] Argument "initializer" to "Linear" has incompatible type "str"; expected "Initializer"
#@ layer_called_without_input
wy.nn.Linear(in_, out)()  # error: [call-arg] Missing positional argument "x" in call to "__call__" of "Linear"
#@ layer_joined_to_a_product
first, second = wy.nn.Linear(in_, hid), wy.nn.Linear(emb, out)
network = first >> second  # error: [operator] Unsupported operand types for >>
#@ chain_of_other_input
network = wy.nn.Linear(in_, hid) >> wy.nn.relu >> wy.nn.Linear(hid, out)
network(y)  # error: [arg-type] Argument 1 to "__call__" of "Layer" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any,
#@ chain_of_other_result
network = wy.nn.Linear(in_, hid) >> wy.nn.relu >> wy.nn.Linear(hid, out)
r: wy.Tensor[Batch, Hid] = network(x)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Out]]", variable has type
#@ chain_with_a_function
wy.nn.Linear(in_, hid) >> np.tanh  # error: [operator] No overload variant of "__rshift__" of "Layer" matches argument type "_UFunc_Nin1_Nout1[Literal['tanh'],
#@ layers_in_a_list_of_other_input
layers = [wy.nn.Linear(in_, hid), wy.nn.Linear(in_, hid)]
layers[0](y)  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any,
#@ weight_of_other_axes
weight: wy.Parameter[tuple[Out, In]] = wy.nn.Linear(in_, out).weight  # error: [assignment] Incompatible types in assignment (expression has type "Parameter[tuple[In, Out]]", variable has type
#@ activation_of_an_array
wy.nn.relu(array)  # error: [arg-type] Argument 1 to "__call__" of "Activation" has incompatible type "ndarray[tuple[Any, ...],
#@ activation_of_another_library
wy.nn.ReLU()  # error: [attr-defined] Module has no attribute "ReLU"
#@ activation_class_in_a_chain
wy.nn.Linear(in_, hid) >> wy.nn.Dropout  # error: [operator] No overload variant of "__rshift__" of "Layer" matches argument type "type[Dropout]"
#@ rate_of_dropout_by_name
wy.nn.Dropout("0.5")  # error: [arg-type] Argument 1 to "Dropout" has incompatible type "str"; expected "float"
#@ dropout_module_without_a_rate
wy.nn.Dropout()  # error: [call-arg] Missing positional argument "rate" in call to "Dropout"
#@ dropout_of_indices
wy.nn.Dropout(0.5)(tokens)  # error: [arg-type] Argument 1 to "__call__" of "Dropout" has incompatible type "IndexInput[tuple[Batch, Time]]"; expected
#@ dropout_keeps_axes
r: wy.Tensor[Batch, Out] = wy.nn.Dropout(0.5)(x)  # error: [arg-type] Argument 1 to "__call__" of "Dropout" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any,
#@ embedding_of_floats
wy.nn.Embedding(words, emb)(x)  # error: [arg-type] Argument 1 to "__call__" of "Embedding" has incompatible type "Input[tuple[Batch, In]]"; expected
#@ embedding_of_text
wy.nn.Embedding("words", emb)  # error: [arg-type] Argument 1 to "Embedding" has incompatible type "str"; expected "Dim | Unnamed[Dim]"
#@ embedding_of_a_float_size
wy.nn.Embedding(20, 12.5)  # error: [arg-type] Argument 2 to "Embedding" has incompatible type "float"; expected "Dim | Unnamed[Dim]"
#@ embedding_without_columns
wy.nn.Embedding(words)  # error: [call-arg] Missing positional argument "embedding_dim" in call to "Embedding"
#@ embedding_rank
r: wy.Tensor[Batch, Emb] = wy.nn.Embedding(words, emb)(tokens)  # error: [arg-type] Argument 1 to "__call__" of "Embedding" has incompatible type "IndexInput[tuple[Batch, Time]]"; expected
#@ embedding_weight_by_another_name
wy.nn.Embedding(words, emb).table  # error: [attr-defined] "Embedding[Words, Emb]" has no attribute "table"
#@ embedding_by_an_index
wy.nn.Embedding(words, emb)[labels]  # error: [index] Value of type "Embedding[Words, Emb]" is not indexable
#@ embeddings_of_other_widths
wy.nn.Embedding(words, emb)(labels) + wy.nn.Embedding(words, hid)(labels)  # error: [operator] Unsupported operand types for +
#@ normalization_of_other_features
wy.nn.LayerNorm(hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "LayerNorm" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any,
#@ normalization_of_a_text
wy.nn.LayerNorm("7")  # error: [arg-type] Argument 1 to "LayerNorm" has incompatible type "str"
#@ normalization_of_a_float
wy.nn.BatchNorm(7.5)  # error: [arg-type] Argument 1 to "BatchNorm" has incompatible type "float"; expected "Dim | Unnamed[Dim]"
#@ normalization_epsilon_by_name
wy.nn.RMSNorm(in_, eps=1e-6)  # error: [call-arg] Unexpected keyword argument "eps" for "RMSNorm"
#@ root_mean_square_of_other_features
wy.nn.RMSNorm(emb)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "RMSNorm" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ statistics_are_no_parameters
wy.optim.SGD([wy.nn.BatchNorm(in_).running_mean], learning_rate=0.1)  # error: [list-item] List item 0 has incompatible type "Buffer[tuple[In]]"; expected "Parameter[Any] | ParameterGroup"
#@ recurrent_layer_of_a_matrix
wy.nn.LSTM(in_, hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "LSTM" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any,
#@ recurrent_layer_of_other_features
wy.nn.LSTM(emb, hid)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "LSTM" has incompatible type "Input[tuple[Batch, Time, In]]"; expected "Node[Any,
#@ recurrent_layer_of_a_name
wy.nn.LSTM("in", hid)  # error: [arg-type] Argument 1 to "LSTM" has incompatible type "str"; expected "Dim | Unnamed[Dim]"
#@ recurrent_result_used_as_a_node
wy.nn.LSTM(in_, hid)(sequence).tanh()  # error: [attr-defined] "LSTMOutput[Batch, Time, Hid]" has no attribute "tanh"
#@ recurrent_state_of_other_width
states, state = wy.nn.LSTM(in_, hid)(sequence)
state.hidden @ w  # error: [operator] Unsupported operand types for @
#@ recurrent_state_by_nodes
wy.nn.LSTM(in_, hid)(sequence, (h0, h0))  # error: [arg-type] Argument 2 to "__call__" of "LSTM" has incompatible type "tuple[Input[tuple[Batch, Hid]], Input[tuple[Batch,
#@ recurrent_layers_option
wy.nn.LSTM(in_, hid, num_layers=2)  # error: [call-arg] Unexpected keyword argument "num_layers" for "LSTM"
#@ recurrent_cell_of_a_sequence
wy.nn.LSTMCell(in_, hid)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "LSTMCell" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ recurrent_reset_of_other_axes
wy.nn.LSTM(in_, hid)(sequence, reset=x > 0.0)  # error: [misc] Cannot infer value of type parameter "T" of "__call__" of "LSTM"
#@ moving_average_of_a_matrix
wy.nn.EWMA(in_)(x)  # error: [arg-type] Argument 1 to "__call__" of "EWMA" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any,
#@ block_of_other_width
wy.nn.TransformerBlock(emb, hid, 3)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "TransformerBlock" has incompatible type "Input[tuple[Batch, Time, In]]";
#@ block_without_heads
wy.nn.TransformerBlock(emb, hid)  # error: [call-arg] Missing positional argument "num_heads" in call to "TransformerBlock"
#@ block_of_a_matrix
wy.nn.TransformerBlock(emb, hid, 3)(table.index(labels))  # error: [arg-type] Argument 1 to "index" of "Parameter" has incompatible type "IndexInput[tuple[Batch]]"; expected
#@ heads_by_another_name
wy.nn.MultiHeadAttention(emb, heads=3)  # error: [call-arg] Unexpected keyword argument "heads" for "MultiHeadAttention"
#@ attention_of_separate_inputs
h = table.index(tokens)
wy.nn.MultiHeadAttention(emb, 3)(h, h, h)  # error: [call-overload] No overload variant of "__call__" of "MultiHeadAttention" matches argument types
#@ attention_of_a_matrix
wy.attention(x)  # error: [arg-type] Argument 1 to "attention" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any, tuple[Never,
#@ attention_of_queries_and_keys
q = wy.Input(dims=(batch, heads, time, key))
wy.attention(q, q, q)  # error: [call-arg] Too many positional arguments for "attention"
#@ attention_result
packed = wy.Input(dims=(batch, time, wy.any_dim(3), heads, key))
r: wy.Tensor[Batch, Heads, Time, Key] = wy.attention(packed)  # error: [arg-type] Argument 1 to "attention" has incompatible type "Input[tuple[Batch, Time, Any, Heads, Key]]"; expected
#@ feed_forward_of_other_width
wy.nn.FeedForward(emb, hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "FeedForward" has incompatible type "Input[tuple[Batch, In]]"; expected
#@ language_model_of_floats
wy.nn.GPT2(wy.nn.GPT2Config())(sequence)  # error: [arg-type] Argument 1 to "__call__" of "BaseDecoder" has incompatible type "Input[tuple[Batch, Time, In]]"; expected
#@ language_model_of_a_row_of_tokens
wy.nn.GPT2(wy.nn.GPT2Config())(labels)  # error: [arg-type] Argument 1 to "__call__" of "BaseDecoder" has incompatible type "IndexInput[tuple[Batch]]"; expected
#@ language_model_without_a_configuration
wy.nn.GPT2(layers=2)  # error: [call-arg] Unexpected keyword argument "layers" for "GPT2"
#@ language_model_configured_by_text
wy.nn.GPT2Config(n_head="12")  # error: [arg-type] Argument "n_head" to "GPT2Config" has incompatible type "str"; expected "int"
#@ language_model_loss_of_other_axes
wy.nn.GPT2(wy.nn.GPT2Config()).loss(tokens, labels)  # error: [arg-type] Argument 2 to "loss" of "BaseDecoder" has incompatible type "IndexInput[tuple[Batch]]"; expected
#@ language_model_loss_alone
wy.nn.GPT2(wy.nn.GPT2Config()).loss(tokens)  # error: [call-arg] Missing positional argument "targets" in call to "loss" of "BaseDecoder"
#@ logits_of_other_rank
r: wy.Tensor[Batch, Words] = wy.nn.GPT2(wy.nn.GPT2Config()).logits(tokens)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Time, Any]]", variable has type
#@ vocabulary_of_other_width
wy.linear_cross_entropy(sequence, table, tokens)  # error: [misc] Cannot infer value of type parameter "N" of "linear_cross_entropy"
#@ vocabulary_by_labels_of_other_axes
wy.linear_cross_entropy(table.index(tokens), table, labels)  # error: [misc] Cannot infer value of type parameter "Bs" of "linear_cross_entropy"
#@ parameters_of_a_module_are_called
for parameter in wy.nn.Linear(in_, out).parameters:  # error: [attr-defined] "Callable[[], list[Parameter[Any]]]" has no attribute "__iter__" (not iterable)
    pass
#@ module_without_a_call
class Network(wy.nn.Module):
    def __init__(self) -> None:
        self.layer = wy.nn.Linear(in_, out)
Network()(x)  # error: [operator] "Network" not callable
#@ forward_of_a_module
wy.nn.Linear(in_, out).forward(x)  # error: [attr-defined] "Linear[In, Out]" has no attribute "forward"
#@ module_moved_to_a_device
wy.nn.Linear(in_, out).to("cuda")  # error: [attr-defined] "Linear[In, Out]" has no attribute "to"
#@ module_method_of_another_library
wy.nn.Linear(in_, out).register_buffer("mean", array)  # error: [attr-defined] "Linear[In, Out]" has no attribute "register_buffer"
#@ module_attribute_that_is_missing
class Network(wy.nn.Module):
    def __init__(self) -> None:
        self.layer = wy.nn.Linear(in_, out)
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        return self.layers(x)  # error: [attr-defined] "Network" has no attribute "layers"; maybe "layer"?
#@ module_given_other_axes
class Network(wy.nn.Module):
    def __init__(self, inputs: In) -> None:
        self.layer = wy.nn.Linear(inputs, out)
Network(hid)  # error: [arg-type] Argument 1 to "Network" has incompatible type "Hid"; expected "In"
#@ generic_module_of_other_axes
class Block(wy.nn.Module, Generic[D]):
    def __init__(self, width: D) -> None:
        self.layer = wy.nn.Linear(width, width)
    def __call__(self, x: wy.Tensor[B, D]) -> wy.Tensor[B, D]:
        return x + self.layer(x).tanh()
Block(hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "Block" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any,
#@ seed_by_text
wy.nn.seed("zero")  # error: [arg-type] Argument 1 to "seed" has incompatible type "str"; expected "int"
#@ cross_entropy_of_probabilities_for_each
wy.losses.cross_entropy(x @ w, y)  # error: [call-overload] No overload variant of "cross_entropy" matches argument types "MatMul[Input[tuple[Batch, In]],
#@ cross_entropy_by_labels_of_other_axes
wy.losses.cross_entropy(x @ w, tokens)  # error: [misc] Cannot infer value of type parameter "Bs" of "cross_entropy"
#@ cross_entropy_of_a_scalar
wy.losses.cross_entropy(scale, labels)  # error: [misc] Cannot infer value of type parameter "Bs" of "cross_entropy"
#@ cross_entropy_of_a_vector
vector.cross_entropy(labels)  # error: [arg-type] Argument 1 to "cross_entropy" of "Node" has incompatible type "IndexInput[tuple[Batch]]"; expected
#@ likelihood_by_floats
wy.losses.nll((x @ w).log_softmax(), y)  # error: [call-overload] No overload variant of "nll" matches argument types "LogSoftmax[MatMul[Any, Any, tuple[Batch, Out]],
#@ binary_loss_of_other_shape
wy.losses.bce_with_logits(x @ w, x)  # error: [misc] Cannot infer value of type parameter "Axes" of "bce_with_logits"
#@ binary_loss_by_labels
wy.losses.bce((x @ w).sigmoid(), labels)  # error: [call-overload] No overload variant of "bce" matches argument types "Sigmoid[MatMul[Any, Any, tuple[Batch, Out]],
#@ hinge_of_a_number
wy.losses.hinge(2.0, y)  # error: [call-overload] No overload variant of "hinge" matches argument types "float", "Input[tuple[Batch, Out]]"
#@ ranking_of_other_shape
wy.losses.bpr(x.sum(axis=-1), sequence.sum(axis=-1))  # error: [misc] Cannot infer value of type parameter "Axes" of "bpr"
#@ triplet_of_other_width
wy.losses.triplet(x, x2, y)  # error: [misc] Cannot infer value of type parameter "N" of "triplet"
#@ triplet_of_scalars
wy.losses.triplet(scale, scale, scale)  # error: [arg-type] Argument 1 to "triplet" has incompatible type "Parameter[tuple[()]]"; expected "Node[Any, tuple[Never]]"
#@ cosine_by_a_target_for_each_feature
wy.losses.cosine_embedding(x, x2, x > 0.0)  # error: [misc] Cannot infer value of type parameter "Bs" of "cosine_embedding"
#@ divergence_of_other_shape
wy.losses.kl_divergence((x @ w).log_softmax(), x.softmax())  # error: [misc] Cannot infer value of type parameter "N" of "kl_divergence"
#@ divergence_by_labels
wy.losses.kl_divergence((x @ w).log_softmax(), labels)  # error: [call-overload] No overload variant of "kl_divergence" matches argument types "LogSoftmax[MatMul[Any, Any, tuple[Batch,
#@ margin_by_name
wy.losses.margin_ranking(x, x2, np.ones(4), margin="0.1")  # error: [call-overload] No overload variant of "margin_ranking" matches argument types "Input[tuple[Batch, In]]", "Input[tuple[Batch,
#@ delta_by_a_string
wy.losses.huber(x @ w, y, delta="1")  # error: [call-overload] No overload variant of "huber" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In,
#@ reduction_as_a_flag
wy.losses.mse(x @ w, y, reduction=None)  # error: [call-overload] No overload variant of "mse" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In,
#@ loss_class_of_another_library
wy.losses.MSELoss()  # error: [attr-defined] Module has no attribute "MSELoss"
#@ loss_by_position_of_an_option
wy.losses.mse(x @ w, y, "sum")  # error: [call-overload] No overload variant of "mse" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In,
#@ normalization_by_a_class_of_axes
wy.nn.LayerNorm(In)  # error: [call-overload] No overload variant of "LayerNorm" matches argument type "type[In]"
#@ layer_norm_of_other_features
wy.nn.LayerNorm(in_)(y)  # error: [arg-type] Argument 1 to "__call__" of "LayerNorm" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any, tuple[Batch, In]]"
#@ weights_of_another_layout_of_rotations
theirs = wy.nn.RotaryWeights(np.ones((8, 4)), 2, wy.nn.Pair)
wy.nn.RotaryEmbedding().array_of(theirs)  # error: [arg-type] Argument 1 to "array_of" of "RotaryEmbedding" has incompatible type "RotaryWeights[Pair]"; expected "RotaryWeights[Half]"
