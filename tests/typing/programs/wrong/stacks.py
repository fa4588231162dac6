# ruff: noqa
# fmt: off
#@ stack_with_layers_by_another_name
wy.nn.StackedLSTM(in_, hid, layers=2)  # error: [call-overload] Unexpected keyword argument "layers" for overloaded function "StackedLSTM"
#@ stack_of_a_matrix
wy.nn.StackedLSTM(in_, hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "StackedLSTM" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any, tuple[Any, Any, In]]"
#@ recurrent_stack_of_other_features
wy.nn.StackedGRU(emb, hid)(sequence)  # error: [arg-type] Argument 1 to "__call__" of "StackedGRU" has incompatible type "Input[tuple[Batch, Time, In]]"; expected "Node[Any, tuple[Batch, Time, Emb]]"
#@ stack_states_as_one_node
wy.nn.StackedGRU(in_, hid, num_layers=2)(sequence, h0)  # error: [arg-type] Argument 2 to "__call__" of "StackedGRU" has incompatible type "Input[tuple[Batch, Hid]]"; expected "Sequence[Node[Any, tuple[Batch, Hid]]] | None"
#@ stack_state_of_other_width
states, last = wy.nn.StackedGRU(in_, hid, num_layers=2)(sequence)
last[0] @ w  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Hid]]" and "Parameter[tuple[In, Out]]")
#@ stack_sequence_of_other_width
states, last = wy.nn.StackedLSTM(in_, hid)(sequence)
r: wy.Tensor[Batch, Time, In] = states  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Time, Hid]]", variable has type "Node[Any, tuple[Batch, Time, In]]")
#@ stack_of_no_size
wy.nn.StackedLSTM(in_)  # error: [call-overload] No overload variant of "StackedLSTM" matches argument type "In"
#@ stack_with_a_rate_by_name
wy.nn.StackedLSTM(in_, hid, dropout="0.1")  # error: [call-overload] No overload variant of "StackedLSTM" matches argument types "In", "Hid", "str"
#@ long_memory_from_one_node
wy.nn.LSTM(in_, hid)(sequence, h0)  # error: [arg-type] Argument 2 to "__call__" of "LSTM" has incompatible type "Input[tuple[Batch, Hid]]"; expected "LSTMState[Batch, Hid] | None"
#@ long_memory_from_states_of_other_width
wy.nn.LSTM(in_, hid)(sequence, wy.nn.LSTMState(y, y))  # error: [arg-type] Argument 1 to "LSTMState" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any, tuple[Batch, Hid]]"
#@ gated_unit_from_two_states
wy.nn.GRU(in_, hid)(sequence, (h0, h0))  # error: [arg-type] Argument 2 to "__call__" of "GRU" has incompatible type "tuple[Input[tuple[Batch, Hid]], Input[tuple[Batch, Hid]]]"; expected "Node[Any, tuple[Batch,
#@ gated_unit_from_a_state_of_other_width
wy.nn.GRU(in_, hid)(sequence, y)  # error: [arg-type] Argument 2 to "__call__" of "GRU" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any, tuple[Batch, Hid]] | None"
#@ gated_unit_used_as_a_node
wy.nn.GRU(in_, hid)(sequence) @ w2  # error: [operator] No overload variant of "__rmatmul__" of "Node" matches argument type "GRUOutput[Batch, Time, Hid]"
#@ cell_from_a_state_of_other_width
wy.nn.GRUCell(in_, hid)(x, y)  # error: [arg-type] Argument 2 to "__call__" of "GRUCell" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any, tuple[Batch, Hid]] | None"
#@ cell_of_another_width
wy.nn.GRUCell(emb, hid)(x)  # error: [arg-type] Argument 1 to "__call__" of "GRUCell" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any, tuple[Batch, Emb]]"
#@ cell_state_taken_apart
hidden, cell = wy.nn.LSTMCell(in_, hid)(x)
cell @ w1  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Hid]]" and "Parameter[tuple[In, Hid]]")
#@ memory_of_tokens
wy.nn.LSTM(in_, hid)(tokens)  # error: [arg-type] Argument 1 to "__call__" of "LSTM" has incompatible type "IndexInput[tuple[Batch, Time]]"; expected "Node[Any, tuple[Any, Any, In]]"
#@ memory_result_taken_as_three
states, hidden, cell = wy.nn.LSTM(in_, hid)(sequence)  # error: [misc] Need more than 2 values to unpack (3 expected)
