# ruff: noqa
# fmt: off
#@ sequential_of_other_input
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Linear(hid, out))
model(y)  # error: [arg-type] Argument 1 to "__call__" of "Sequential" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any, tuple[Batch, In]]"
#@ sequential_of_other_result
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Linear(hid, out))
r: wy.Tensor[Batch, Hid] = model(x)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Out]]", variable has type "Node[Any, tuple[Batch, Hid]]")
#@ sequential_result_in_a_product
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.tanh, wy.nn.Linear(hid, out))
model(x) @ w2  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Out]]" and "Parameter[tuple[Hid, Out]]")
#@ sequential_of_a_list
wy.nn.Sequential([wy.nn.Linear(in_, hid), wy.nn.relu])  # error: [call-overload] No overload variant of "Sequential" matches argument type "list[Layer[Any, Any]]"
#@ sequential_of_names
wy.nn.Sequential(wy.nn.Linear(in_, hid), "relu")  # error: [call-overload] No overload variant of "Sequential" matches argument types "Linear[In, Hid]", "str"
#@ sequential_of_a_function
wy.nn.Sequential(wy.nn.Linear(in_, hid), np.tanh)  # error: [call-overload] No overload variant of "Sequential" matches argument types "Linear[In, Hid]", "_UFunc_Nin1_Nout1[Literal['tanh'], Literal[8], None]"
#@ sequential_of_a_class
wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.Dropout)  # error: [call-overload] No overload variant of "Sequential" matches argument types "Linear[In, Hid]", "type[Dropout]"
#@ sequential_of_a_parameter
wy.nn.Sequential(wy.nn.Linear(in_, hid), w2)  # error: [call-overload] No overload variant of "Sequential" matches argument types "Linear[In, Hid]", "Parameter[tuple[Hid, Out]]"
#@ sequential_of_an_array
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Linear(hid, out))
model(array)  # error: [arg-type] Argument 1 to "__call__" of "Sequential" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"; expected "Node[Any,
#@ sequential_of_two_inputs
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.Linear(hid, out))
model(x, x2)  # error: [call-arg] Too many arguments for "__call__" of "Sequential"
#@ sequential_of_indices_for_a_layer
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.Linear(hid, out))
model(tokens)  # error: [arg-type] Argument 1 to "__call__" of "Sequential" has incompatible type "IndexInput[tuple[Batch, Time]]"; expected "Node[Any, tuple[*tuple[Never, ...], In]]"
#@ sequential_with_another_attribute
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.Linear(hid, out))
model.modules_  # error: [attr-defined] "Sequential[In, Out]" has no attribute "modules_"
#@ sequential_appended_as_a_list
model = wy.nn.Sequential(wy.nn.Linear(in_, hid))
model.append(wy.nn.Linear(hid, out))  # error: [attr-defined] "Sequential[Any, Any]" has no attribute "append"
#@ composed_layers_that_do_not_follow
network = wy.nn.Linear(in_, hid) >> wy.nn.relu >> wy.nn.LayerNorm(hid)
last = wy.nn.Linear(emb, out)
network >> last  # error: [operator] Unsupported operand types for >> ("Layer[In, Hid]" and "Linear[Emb, Out]")
#@ sequential_followed_by_another_layer
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Linear(hid, emb))
last = wy.nn.Linear(words, out)
model >> last  # error: [operator] Unsupported operand types for >> ("Sequential[In, Emb]" and "Linear[Words, Out]")
#@ composed_with_a_number
wy.nn.Linear(in_, hid) >> 2  # error: [operator] No overload variant of "__rshift__" of "Layer" matches argument type "int"
#@ convolution_composed_with_a_function
wy.nn.Conv2d(1, 4, 3) >> np.tanh  # error: [operator] Unsupported operand types for >> ("Conv2d[Any, Any]" and "_UFunc_Nin1_Nout1[Literal['tanh'], Literal[8], None]")
#@ composition_the_other_way_round
wy.nn.Linear(in_, hid) << wy.nn.relu  # error: [operator] Unsupported left operand type for << ("Linear[In, Hid]")
#@ composed_attribute_of_other_axes
class Network(wy.nn.Module):
    def __init__(self) -> None:
        self.body = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Linear(hid, hid))
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        return self.body(x)  # error: [return-value] Incompatible return value type (got "Node[Any, tuple[Batch, Hid]]", expected "Node[Any, tuple[Batch, Out]]")
