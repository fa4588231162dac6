# ruff: noqa
# fmt: off
#@ gradient_of_a_matrix
wy.grad(x @ w, w)  # error: [arg-type] Argument 1 to "grad" has incompatible type "MatMul[Input[tuple[Batch, In]], Any, tuple[Batch, Out]]"; expected "Node[Any, tuple[()]]"
#@ gradient_of_losses_for_each
wy.grad((x @ w).cross_entropy(labels, reduction="none"), [w])  # error: [arg-type] Argument 1 to "grad" has incompatible type "CrossEntropy[MatMul[Any, Any, tuple[Batch, Out]], tuple[Batch]]";
#@ gradient_of_a_row_mean
loss = (x @ w - y).square().mean(axis=1)
wy.value_and_grad(loss, w)  # error: [arg-type] Argument 1 to "value_and_grad" has incompatible type "Mean[Square[Any, tuple[Batch, Out]], tuple[Batch]]";
#@ gradient_by_its_name
wy.grad(x.sum(), "x")  # error: [arg-type] Argument 2 to "grad" has incompatible type "str"; expected "Sequence[Node[Any, Any]] | None"
#@ gradient_by_labels
wy.grad((x @ w).cross_entropy(labels), labels)  # error: [call-overload] No overload variant of "grad" matches argument types "CrossEntropy[MatMul[Any, Any, tuple[Batch, Out]],
#@ gradient_by_an_array
wy.grad(x.sum(), array)  # error: [call-overload] No overload variant of "grad" matches argument types "Sum[Input[tuple[Batch, In]], tuple[()]]",
#@ gradient_of_a_number
wy.grad(2.0, w)  # error: [call-overload] No overload variant of "grad" matches argument types "float", "Parameter[tuple[In, Out]]"
#@ gradient_taken_for_an_array
step: NDArray[np.float32] = wy.grad((x @ w).sum(), w)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[In, Out]]", variable has type
#@ gradient_of_other_axes
step: wy.Tensor[Out, In] = wy.grad((x @ w).sum(), w)  # error: [arg-type] Argument 2 to "grad" has incompatible type "Parameter[tuple[In, Out]]"; expected "Node[Any, tuple[Out, In]]"
#@ step_by_the_gradient_of_another
gradient = wy.grad((x @ w + b).sum(), w)
w1 - 0.1 * gradient  # error: [operator] Unsupported operand types for -
#@ one_name_for_two_gradients
gradient: wy.Tensor[In, Out] = wy.grad((x @ w + b).sum(), [w, b])  # error: [assignment] Incompatible types in assignment (expression has type "list[Node[Any, Any]]", variable has type "Node[Any,
#@ training_of_a_matrix
wy.compile(x @ w, wy.optim.SGD([w], learning_rate=0.1))  # error: [arg-type] Argument 1 to "compile" has incompatible type "MatMul[Input[tuple[Batch, In]], Any, tuple[Batch, Out]]"; expected "Node[Any, tuple[()]]"
#@ training_of_losses_for_each
loss = wy.losses.mse(x @ w, y, reduction="none")
wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=0.1))  # error: [arg-type] Argument 1 to "compile" has incompatible type "Node[Any, tuple[Batch, Out]]"; expected "Node[Any, tuple[()]]"
#@ training_of_two_losses
wy.compile([x.sum(), y.sum()], wy.optim.SGD([w], learning_rate=0.1))  # error: [call-overload] No overload variant of "compile" matches argument types "list[Sum[Input[tuple[Batch, Dim]], tuple[()]]]",
#@ optimizer_by_its_name
wy.compile((x @ w).sum(), "adam")  # error: [call-overload] No overload variant of "compile" matches argument types "Sum[MatMul[Any, Any, tuple[Batch, Out]],
#@ optimizer_class_for_an_optimizer
wy.compile((x @ w).sum(), wy.optim.Adam)  # error: [call-overload] No overload variant of "compile" matches argument types "Sum[MatMul[Any, Any, tuple[Batch, Out]],
#@ compiling_a_module
wy.compile(wy.nn.Linear(in_, out))  # error: [call-overload] No overload variant of "compile" matches argument type "Linear[In, Out]"
#@ compiling_a_function
def predict(rows: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
    return rows @ w
wy.compile(predict)  # error: [call-overload] No overload variant of "compile" matches argument type "Callable[[Node[Any, tuple[Batch, In]]], Node[Any,
#@ compiling_by_a_misspelled_option
wy.compile(x.sum(), loops="python")  # error: [call-overload] Unexpected keyword argument "loops" for overloaded function "compile"; did you mean "loop"?
#@ compiling_by_an_unknown_loop
wy.compile(x.sum(), loop="fast")  # error: [call-overload] No overload variant of "compile" matches argument types "Sum[Input[tuple[Batch, In]], tuple[()]]", "str"
#@ columns_by_position
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
train.epoch([array, array])  # error: [type-var] Value of type variable "DataT" of "epoch" of "Program" cannot be "list[ndarray[tuple[Any, ...],
#@ columns_as_arguments
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
train.epoch(array, batch_size=32)  # error: [type-var] Value of type variable "DataT" of "epoch" of "Program" cannot be "ndarray[tuple[Any, ...],
#@ epochs_as_an_option
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
train.epoch({x: array, y: y.value}, epochs=5)  # error: [call-arg] Unexpected keyword argument "epochs" for "epoch" of "Program"
#@ batch_size_in_part
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
train.epoch({x: array, y: y.value}, batch_size=0.5)  # error: [arg-type] Argument "batch_size" to "epoch" of "Program" has incompatible type "float"; expected "int"
#@ unknown_mode_of_threads
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
train.epoch({x: array, y: y.value}, threads=2, mode="sync")  # error: [arg-type] Argument "mode" to "epoch" of "Program" has incompatible type "Literal['sync']"; expected "Literal['hogwild',
#@ options_by_position
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
train.epoch({x: array, y: y.value}, 32)  # error: [call-arg] Too many positional arguments for "epoch" of "Program"
#@ losses_of_an_epoch
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], learning_rate=0.1))
losses: list[float] = train.epoch({x: array, y: y.value})  # error: [assignment] Incompatible types in assignment (expression has type "float", variable has type "list[float]")
#@ program_called_by_an_array
wy.compile(x @ w)(array)  # error: [type-var] Value of type variable "OptionalFeedT" of "__call__" of "Program" cannot be "ndarray[tuple[Any, ...],
#@ program_gives_arrays
wy.compile(x @ w)({x: array}).backward()  # error: [attr-defined] "ndarray[tuple[Any, ...], dtype[floating[Any]]]" has no attribute "backward"
#@ program_of_two_gives_a_list
wy.compile([x @ w, x.sum()])({x: array}).shape  # error: [attr-defined] "list[ndarray[tuple[Any, ...], dtype[floating[Any]]]]" has no attribute "shape"
#@ program_of_one_gives_no_list
values: list[NDArray[np.floating[Any]]] = wy.compile(x @ w)({x: array})  # error: [assignment] Incompatible types in assignment (expression has type "ndarray[tuple[Any, ...], dtype[floating[Any]]]",
#@ program_of_positions_gives_integers
scores_of: NDArray[np.floating[Any]] = wy.compile(x.argmax(-1))({x: array})  # error: [assignment] Incompatible types in assignment (expression has type "ndarray[tuple[Any, ...], dtype[integer[Any]]]",
#@ program_is_no_node
wy.compile(x @ w) + 1.0  # error: [operator] Unsupported operand types for +
#@ source_is_no_method
wy.compile(x @ w).source()  # error: [operator] "str" not callable
#@ optimizer_without_parameters
wy.optim.Adam(learning_rate=1e-3)  # error: [call-arg] Missing positional argument "parameters" in call to "Adam"
#@ optimizer_of_a_module
wy.optim.Adam(wy.nn.Linear(in_, out), learning_rate=1e-3)  # error: [arg-type] Argument 1 to "Adam" has incompatible type "Linear[In, Out]"; expected "Iterable[Parameter[Any] | ParameterGroup]"
#@ optimizer_of_one_parameter
wy.optim.SGD(w, learning_rate=0.1)  # error: [arg-type] Argument 1 to "SGD" has incompatible type "Parameter[tuple[In, Out]]"; expected "Iterable[Parameter[Any] | ParameterGroup]"
#@ optimizer_of_buffers
wy.optim.SGD(dict(wy.nn.BatchNorm(in_).named_buffers()).values(), learning_rate=0.1)  # error: [arg-type] Argument 1 to "SGD" has incompatible type "dict_values[str, Buffer[Any]]"; expected "Iterable[Parameter[Any] | ParameterGroup]"
#@ optimizer_of_computed_nodes
wy.optim.SGD([w * 2.0], learning_rate=0.1)  # error: [list-item] List item 0 has incompatible type "Multiply[Parameter[tuple[In, Out]], Constant[Any], tuple[In, Out]]";
#@ optimizer_of_method_parameters
wy.optim.SGD(wy.nn.Linear(in_, out).parameters, learning_rate=0.1)  # error: [arg-type] Argument 1 to "SGD" has incompatible type "Callable[[], list[Parameter[Any]]]"; expected
#@ short_name_of_the_rate
wy.optim.SGD([w], lr=0.1)  # error: [call-arg] Unexpected keyword argument "lr" for "SGD"
#@ rate_by_a_string
wy.optim.SGD([w], learning_rate="0.1")  # error: [arg-type] Argument "learning_rate" to "SGD" has incompatible type "str"; expected "float | Callable[[int], float]"
#@ rate_set_to_a_list
optimizer = wy.optim.SGD([w], learning_rate=0.1)
optimizer.learning_rate = [0.1, 0.01]  # error: [assignment] Incompatible types in assignment (expression has type "list[float]", variable has type "float |
#@ step_of_a_loss
optimizer = wy.optim.SGD([w], learning_rate=0.1)
optimizer.step((x @ w).sum())  # error: [call-arg] Too many arguments for "step" of "Optimizer"
#@ zero_grad_by_another_name
optimizer = wy.optim.SGD([w], learning_rate=0.1)
optimizer.zero_grad()  # error: [attr-defined] "SGD" has no attribute "zero_grad"
#@ clipping_of_nodes
wy.optim.clip_by_global_norm([x, y], 1.0)  # error: [list-item] List item 0 has incompatible type "Input[tuple[Batch, In]]"; expected "Parameter[Any]"
#@ clipping_without_a_limit
wy.optim.clip_by_global_norm([w])  # error: [call-arg] Missing positional argument "max_norm" in call to "clip_by_global_norm"
#@ state_of_an_optimizer_by_a_path
wy.optim.Adam([w], learning_rate=0.1).load_state_dict("state.npz")  # error: [arg-type] Argument 1 to "load_state_dict" of "Optimizer" has incompatible type "str"; expected "Mapping[str,
#@ running_one_node
wy.run(x.sum())  # error: [arg-type] Argument 1 to "run" has incompatible type "Sum[Input[tuple[Batch, In]], tuple[()]]"; expected
#@ running_values
wy.run([array, array])  # error: [list-item] List item 0 has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"; expected
#@ values_of_a_run
first: float = wy.run([x.sum()])  # error: [assignment] Incompatible types in assignment (expression has type "list[ndarray[tuple[Any, ...], dtype[Any]]]", variable
#@ gradient_of_a_node
(x @ w).gradient  # error: [attr-defined] "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" has no attribute "gradient"
#@ setting_a_gradient
w.gradient = numbers(7, 3)  # error: [misc] Property "gradient" defined in "Parameter" is read-only
#@ data_of_a_parameter
w.data  # error: [attr-defined] "Parameter[tuple[In, Out]]" has no attribute "data"
#@ detached_by_another_name
(x @ w).detach()  # error: [attr-defined] "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" has no attribute "detach"
#@ accuracy_of_nodes
wy.metrics.accuracy(labels, x.argmax(-1))  # error: [arg-type] Argument 1 to "accuracy" has incompatible type "IndexInput[tuple[Batch]]"; expected
#@ accuracy_without_predictions
wy.metrics.accuracy([0, 1, 2])  # error: [call-arg] Missing positional argument "predictions" in call to "accuracy"
#@ accuracy_as_a_node
wy.metrics.accuracy([0, 1], [0, 1]).backward()  # error: [attr-defined] "float" has no attribute "backward"
#@ unknown_average
wy.metrics.f1([0, 1], [0, 1], average="weighted")  # error: [arg-type] Argument "average" to "f1" has incompatible type "Literal['weighted']"; expected "Literal['binary', 'macro',
#@ error_of_a_node
wy.metrics.mean_squared_error(array, x)  # error: [arg-type] Argument 2 to "mean_squared_error" has incompatible type "Input[tuple[Batch, In]]"; expected
#@ number_of_classes_in_part
wy.metrics.top_k_accuracy([0, 1], array, k=1.5)  # error: [arg-type] Argument "k" to "top_k_accuracy" has incompatible type "float"; expected "int"
#@ misspelled_metric
wy.metrics.accurracy([0, 1], [0, 1])  # error: [attr-defined] Module has no attribute "accurracy"; maybe "accuracy" or "Accuracy"?
#@ data_set_of_arrays
wy.data.Dataset(array)  # error: [arg-type] Argument 1 to "Dataset" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"; expected
#@ data_set_of_nodes
wy.data.Dataset({"x": x})  # error: [dict-item] Dict entry 0 has incompatible type "str": "Input[tuple[Batch, In]]"; expected "str":
#@ split_by_a_count
wy.data.train_test_split(wy.data.Dataset({"x": array}), test_fraction="20%")  # error: [arg-type] Argument "test_fraction" to "train_test_split" has incompatible type "str"; expected "float"
#@ split_of_an_array
wy.data.train_test_split(array)  # error: [type-var] Value of type variable "Data" of "train_test_split" cannot be "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"
#@ split_in_three
training, valid, test = wy.data.train_test_split(wy.data.Dataset({"x": array}))  # error: [misc] Need more than 2 values to unpack (3 expected)
#@ loader_of_arrays
wy.data.DataLoader(array, batch_size=4)  # error: [arg-type] Argument 1 to "DataLoader" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"; expected
#@ loader_by_a_fraction
wy.data.DataLoader(wy.data.Dataset({"x": array}), batch_size=0.5)  # error: [arg-type] Argument "batch_size" to "DataLoader" has incompatible type "float"; expected "int"
#@ saving_without_a_path
wy.nn.Linear(in_, out).save()  # error: [call-arg] Missing positional argument "path" in call to "save" of "Module"
#@ loading_by_a_number
wy.nn.Linear(in_, out).load(3)  # error: [arg-type] Argument 1 to "load" of "Module" has incompatible type "int"; expected "str | PathLike[str]"
#@ arrays_saved_without_names
wy.io.save_arrays("arrays.safetensors", [array, array])  # error: [arg-type] Argument 2 to "save_arrays" has incompatible type "list[ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]]";
#@ text_of_an_array
wy.view.to_text(array)  # error: [arg-type] Argument 1 to "to_text" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"; expected
#@ metric_of_several_numbers
loss = (x @ w - y).square().mean()
wy.compile(loss, wy.optim.SGD([w], learning_rate=0.1), metrics={"scores": x @ w})  # error: [dict-item] Dict entry 0 has incompatible type "str": "MatMul[Input[tuple[Batch, In]], Any, tuple[Batch, Out]]"; expected "str": "Node[Any, tuple[()]]"
#@ metrics_are_a_dict_of_numbers
loss = (x @ w - y).square().mean()
train = wy.compile(loss, wy.optim.SGD([w], learning_rate=0.1), metrics={"size": w.square().sum()})
mean: float = train.epoch({x: array, y: y.value})  # error: [assignment] Incompatible types in assignment (expression has type "dict[str, float]", variable has type "float")
#@ running_metric_without_nodes
wy.compile((x @ w).mean()).evaluate({x: array}, metrics={"mean": wy.metrics.Mean()})  # error: [dict-item] Dict entry 0 has incompatible type "str": "Mean"; expected "str": "tuple[RunningMetric, *tuple[BaseNode[Any, Any], ...]]"
