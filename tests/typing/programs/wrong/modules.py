# ruff: noqa
# fmt: off
#@ layers_that_do_not_fit
first, second = wy.nn.Linear(in_, hid), wy.nn.Linear(emb, out)
second(first(x))  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "Node[Any, tuple[Batch, Hid]]"
#@ annotation_of_a_layer_swapped
layer: wy.nn.Linear[In, Out] = wy.nn.Linear(out, in_)  # error: [arg-type] Argument 1 to "Linear" has incompatible type "Out"
#@ layers_swapped_in_a_module
class Classifier(wy.nn.Module):
    def __init__(self, inputs: In, hidden: Hid, classes: Out) -> None:
        self.hidden = wy.nn.Linear(inputs, hidden)
        self.output = wy.nn.Linear(hidden, classes)
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        return self.hidden(self.output(x).relu())  # error: [return-value] Incompatible return value type (got "Node[Any, tuple[Batch, Hid]]", expected "Node[Any, tuple[Batch, Out]]")
#@ arguments_swapped_in_a_module
class Perceptron(wy.nn.Module):
    def __init__(self) -> None:
        self.first = wy.nn.Linear(in_, hid)
        self.second = wy.nn.Linear(out, hid)
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Hid]:
        return self.second(self.first(x).tanh())  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "Tanh[Node[Any, tuple[Batch, Hid]], tuple[Batch, Hid]]"
#@ wrong_wiring_of_a_generic_module
class Perceptron(wy.nn.Module, Generic[I, H, D]):
    def __init__(self, inputs: I, hidden: H, outputs: D) -> None:
        self.first = wy.nn.Linear(inputs, hidden)
        self.second = wy.nn.Linear(inputs, outputs)
    def __call__(self, x: wy.Tensor[B, I]) -> wy.Tensor[B, D]:
        return self.second(self.first(x).sigmoid())  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "Sigmoid[Node[Any, tuple[B, H]], tuple[B, H]]"
#@ wrong_argument_of_a_function
def f(x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
    return x @ w
f(x.T)  # error: [arg-type] Argument 1 to "f" has incompatible type "Transpose[Any, tuple[In, Batch]]"
#@ wrong_input_of_a_recurrent_cell
cell = LSTMCell(in_, hid)
cell((h0, h0), h0)  # error: [arg-type] Argument 2 to "__call__" of "LSTMCell" has incompatible type "Input[tuple[Batch, Hid]]"
#@ wrong_state_of_a_recurrent_cell
cell = LSTMCell(in_, hid)
cell((x, x), x)  # error: [arg-type] Argument 1 to "__call__" of "LSTMCell" has incompatible type "tuple[Input[tuple[Batch, In]], Input[tuple[Batch, In]]]"
#@ wrong_sequence_of_a_recurrent_layer
LSTM(in_, hid)([x, h0])  # error: [list-item] List item 1 has incompatible type "Input[tuple[Batch, Hid]]"; expected "Node[Any, tuple[Batch, In]]"
#@ wrong_width_of_attention
attention = Attention(hid)
q = table.index(tokens)
attention(q, q, q)  # error: [arg-type] Argument 1 to "__call__" of "Attention" has incompatible type "Index[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch, Time]], tuple[Batch, Time, Emb]]"
#@ layers_composed_that_do_not_fit
network = wy.nn.Linear(in_, hid) >> wy.nn.Linear(emb, out)  # error: [arg-type] Argument 1 to "Linear" has incompatible type "Emb"
#@ untyped_layer_of_a_scalar
wy.nn.Linear(7, 3)(scale)  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "Parameter[tuple[()]]"
#@ layer_of_indices
wy.nn.Linear(in_, out)(labels)  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "IndexInput[tuple[Batch]]"
#@ wrong_result_of_a_layer
r: wy.Tensor[Batch, Hid] = wy.nn.Linear(in_, out)(x)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Out]]", variable has type "Node[Any, tuple[Batch, Hid]]")
#@ list_of_layers_that_do_not_fit
layers: list[Callable[[wy.Tensor[Batch, Hid]], wy.Tensor[Batch, Hid]]] = [wy.nn.Linear(hid, out)]  # error: [list-item] List item 0 has incompatible type "Linear[Hid, Out]"
#@ residual_of_other_width
h = x @ w1
r = x + h.tanh()  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Tanh[MatMul[Any, Any, tuple[Batch, Hid]], tuple[Batch, Hid]]")
#@ bias_may_be_missing
def total(layer: wy.nn.Linear[In, Out]) -> wy.Node:
    return x @ w + layer.bias  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "None"
