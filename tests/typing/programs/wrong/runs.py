# ruff: noqa
# fmt: off
#@ misspelled_option_of_an_optimizer
wy.optim.SGD([w], 0.1, momentun=0.9)  # error: [call-arg] Unexpected keyword argument "momentun" for "SGD"; did you mean "momentum"?
#@ betas_by_one_number
wy.optim.Adam([w], 0.1, betas=0.9)  # error: [arg-type] Argument "betas" to "Adam" has incompatible type "float"; expected "tuple[float, float]"
#@ nesterov_by_a_string
wy.optim.SGD([w], 0.1, momentum=0.9, nesterov="yes")  # error: [arg-type] Argument "nesterov" to "SGD" has incompatible type "str"; expected "bool"
#@ rate_by_a_schedule_class
wy.optim.SGD([w], learning_rate=wy.optim.Cosine)  # error: [arg-type] Argument "learning_rate" to "SGD" has incompatible type "type[Cosine]"; expected "float | Callable[[int], float]"
#@ schedule_without_steps
wy.optim.Cosine(0.1)  # error: [call-arg] Missing positional argument "steps" in call to "Cosine"
#@ milestones_by_one_number
wy.optim.MultiStep(0.1, milestones=10)  # error: [arg-type] Argument "milestones" to "MultiStep" has incompatible type "int"; expected "Sequence[int]"
#@ schedules_joined_without_boundaries
wy.optim.Joined([wy.optim.LinearWarmup(0.1, steps=4), 0.1])  # error: [call-arg] Missing positional argument "boundaries" in call to "Joined"
#@ schedule_of_two_arguments
def falling(step: int, rate: float) -> float:
    return rate / (1 + step)
wy.optim.SGD([w], learning_rate=falling)  # error: [arg-type] Argument "learning_rate" to "SGD" has incompatible type "Callable[[int, float], float]"; expected "float | Callable[[int], float]"
#@ schedule_that_gives_text
def named(step: int) -> str:
    return "small"
wy.optim.Adam([w], learning_rate=named)  # error: [arg-type] Argument "learning_rate" to "Adam" has incompatible type "Callable[[int], str]"; expected "float | Callable[[int], float]"
#@ optimizers_combined_one_by_one
wy.optim.Combined(wy.optim.SGD([w], 0.1), wy.optim.Adam([b], 0.1))  # error: [call-arg] Too many positional arguments for "Combined"
#@ combined_of_parameters
wy.optim.Combined([w, b])  # error: [list-item] List item 0 has incompatible type "Parameter[tuple[In, Out]]"; expected "Optimizer"
#@ average_by_a_number
wy.optim.Adam([w], 0.1, average=0.99)  # error: [arg-type] Argument "average" to "Adam" has incompatible type "float"; expected "Average | None"
#@ averaged_values_of_a_property
with wy.optim.Adam([w], 0.1).average_parameters:  # error: [attr-defined] "Callable[[], _GeneratorContextManager[None, None, None]]" has no attribute "__enter__"
    pass
#@ norm_by_text
wy.optim.SGD([w], 0.1, max_norm="1.0")  # error: [arg-type] Argument "max_norm" to "SGD" has incompatible type "str"; expected "float | None"
#@ norm_of_gradients_is_a_number
wy.optim.clip_by_global_norm([w], 1.0).backward()  # error: [attr-defined] "float" has no attribute "backward"
#@ clipping_gives_nothing
clipped: float = wy.optim.clip_by_value([w], 1.0)  # error: [assignment] Incompatible types in assignment (expression has type "None", variable has type "float")
#@ step_gives_nothing
loss: float = wy.optim.SGD([w], 0.1).step()  # error: [func-returns-value] "step" of "Optimizer" does not return a value (it only ever returns None)
#@ state_of_an_optimizer_as_a_list
state: list[NDArray[Any]] = wy.optim.Adam([w], 0.1).state_dict()  # error: [assignment] Incompatible types in assignment (expression has type "dict[str, ndarray[tuple[Any, ...], dtype[Any]]]", variable has type
#@ number_of_steps_called
wy.optim.Adam([w], 0.1).steps()  # error: [operator] "int" not callable
#@ optimizer_by_a_misspelled_name
wy.optim.AdmaW([w], 0.1)  # error: [attr-defined] Module has no attribute "AdmaW"; maybe "AdamW"?
#@ optimizer_of_another_library
def configure(parameters: list[wy.Parameter]) -> wy.optim.Optimizer:
    return parameters  # error: [return-value] Incompatible return value type (got "list[Parameter[Any]]", expected "Optimizer")
#@ fit_without_epochs
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value})  # error: [call-arg] Missing named argument "epochs" for "fit"
#@ fit_by_the_name_of_another_library
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=2, validation_data={x: array})  # error: [call-arg] Unexpected keyword argument "validation_data" for "fit"; did you mean "validation"?
#@ fit_of_a_module
wy.train.fit(wy.nn.Linear(in_, out), {x: array}, epochs=1)  # error: [arg-type] Argument 1 to "fit" has incompatible type "Linear[In, Out]"; expected "Program[Any, Any]"
#@ fit_of_arrays
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, array, epochs=1)  # error: [type-var] Value of type variable "DataT" of "fit" cannot be "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"
#@ fit_by_one_callback
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=1, callbacks=wy.train.EarlyStopping())  # error: [arg-type] Argument "callbacks" to "fit" has incompatible type "EarlyStopping"; expected "Sequence[Callback]"
#@ fit_by_a_class_of_callbacks
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=1, callbacks=[wy.train.EarlyStopping])  # error: [list-item] List item 0 has incompatible type "type[EarlyStopping]"; expected "Callback"
#@ fit_by_a_function
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=1, callbacks=[print])  # error: [list-item] List item 0 has incompatible type overloaded function; expected "Callback"
#@ fit_gives_a_history
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
loss: float = wy.train.fit(train, {x: array, y: y.value}, epochs=1)  # error: [assignment] Incompatible types in assignment (expression has type "History", variable has type "float")
#@ history_by_position
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=1)[0]  # error: [index] Invalid index type "int" for "History"; expected type "str"
#@ history_of_one_number
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
last: float = wy.train.fit(train, {x: array, y: y.value}, epochs=1)["loss"]  # error: [assignment] Incompatible types in assignment (expression has type "list[float]", variable has type "float")
#@ best_of_a_history_called
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=1).best()  # error: [operator] "EpochRecord" not callable
#@ epochs_in_part
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
wy.train.fit(train, {x: array, y: y.value}, epochs=1.5)  # error: [arg-type] Argument "epochs" to "fit" has incompatible type "float"; expected "int"
#@ patience_by_text
wy.train.EarlyStopping(patience="5")  # error: [arg-type] Argument "patience" to "EarlyStopping" has incompatible type "str"; expected "int"
#@ monitor_by_a_function
wy.train.EarlyStopping(3, monitor=lambda values: values["loss"])  # error: [arg-type] Argument "monitor" to "EarlyStopping" has incompatible type "Callable[[Any], Any]"; expected "str | None"
#@ plateau_by_an_unknown_option
wy.train.ReduceOnPlateau(0.5, cooldown=2)  # error: [call-arg] Unexpected keyword argument "cooldown" for "ReduceOnPlateau"
#@ checkpoint_without_a_folder
wy.train.Checkpoint()  # error: [call-arg] Missing positional argument "directory" in call to "Checkpoint"
#@ checkpoint_of_a_list
wy.train.Checkpoint("runs", [w, b])  # error: [arg-type] Argument 2 to "Checkpoint" has incompatible type "list[Parameter[tuple[In | Out, ...]]]"; expected Module | Mapping[str, Any] |
#@ callback_of_another_signature
class Printer(wy.train.Callback):
    def on_epoch_end(self, epoch: int, values: dict[str, float]) -> None:  # error: [override] Argument 1 of "on_epoch_end" is incompatible with supertype "wyrm.train.callbacks.Callback"; supertype defines the argument type
        print(epoch, values)
#@ callback_that_returns_a_flag
from collections.abc import Mapping
class Stopper(wy.train.Callback):
    def on_epoch_end(self, run: wy.train.Run, values: Mapping[str, float]) -> bool:  # error: [override] Return type "bool" of "on_epoch_end" incompatible with return type "None" in supertype "wyrm.train.callbacks.Callback"
        return values["loss"] < 0.1
#@ callback_by_a_position
wy.train.LambdaCallback(lambda run: None)  # error: [call-arg] Too many positional arguments for "LambdaCallback"
#@ callback_of_an_unknown_event
wy.train.LambdaCallback(on_batch_end=lambda run: None)  # error: [call-arg] Unexpected keyword argument "on_batch_end" for "LambdaCallback"
#@ epoch_of_a_run_called
def stop(run: wy.train.Run) -> None:
    print(run.epoch())  # error: [operator] "int" not callable
#@ value_of_a_run_that_is_missing
def stop(run: wy.train.Run) -> None:
    run.stop_training = True  # error: [attr-defined] "Run" has no attribute "stop_training"
#@ sharding_by_names_of_axes
loss = (x @ w - y).square().mean()
wy.compile(loss, wy.optim.SGD([w], 0.1), engine="jax", sharding={"Batch": "data"})  # error: [dict-item] Dict entry 0 has incompatible type "str": "str"; expected "type[Dim]": "str | tuple[str, ...]"
#@ sharding_by_axes_with_sizes
loss = (x @ w - y).square().mean()
wy.compile(loss, wy.optim.SGD([w], 0.1), engine="jax", sharding={batch: "data"})  # error: [dict-item] Dict entry 0 has incompatible type "Batch": "str"; expected "type[Dim]": "str | tuple[str, ...]"
#@ computing_in_an_unknown_type
loss = (x @ w - y).square().mean()
wy.compile(loss, wy.optim.SGD([w], 0.1), engine="jax", compute_dtype="float16")  # error: [call-overload] No overload variant of "compile" matches argument types "Mean[Square[Any, tuple[Batch, Out]], tuple[()]]", "SGD", "str", "str"
#@ metrics_in_a_list
loss = (x @ w - y).square().mean()
wy.compile(loss, wy.optim.SGD([w], 0.1), metrics=[w.square().sum()])  # error: [call-overload] No overload variant of "compile" matches argument types "Mean[Square[Any, tuple[Batch, Out]], tuple[()]]", "SGD",
#@ loader_without_a_batch_size
wy.data.DataLoader(wy.data.Dataset(x=numbers(4, 7)))  # error: [call-arg] Missing positional argument "batch_size" in call to "DataLoader"
#@ loader_by_the_name_of_another_library
wy.data.DataLoader(wy.data.Dataset(x=numbers(4, 7)), batch_size=2, num_workers=4)  # error: [call-arg] Unexpected keyword argument "num_workers" for "DataLoader"
#@ batch_of_a_loader_by_position
loader = wy.data.DataLoader(wy.data.Dataset(x=numbers(4, 7)), batch_size=2)
loader[0]  # error: [index] Value of type "DataLoader" is not indexable
#@ batch_of_a_loader_as_a_pair
for images, classes in wy.data.DataLoader(wy.data.Dataset(x=numbers(4, 7)), 2):
    images.sum()  # error: [attr-defined] "str" has no attribute "sum"
#@ column_of_a_data_set_as_an_attribute
wy.data.Dataset(x=numbers(4, 7)).x  # error: [attr-defined] "Dataset" has no attribute "x"
#@ column_of_a_data_set_used_as_a_node
wy.data.Dataset(x=numbers(4, 7))["x"].relu()  # error: [attr-defined] "ndarray[tuple[Any, ...], dtype[Any]]" has no attribute "relu"
#@ rows_of_a_data_set_by_a_fraction
wy.data.Dataset(x=numbers(4, 7))[0.5]  # error: [call-overload] No overload variant of "__getitem__" of "Dataset" matches argument type "float"
#@ function_of_a_data_set_that_gives_an_array
wy.data.Dataset(x=numbers(4, 7)).map(lambda columns: columns["x"])  # error: [arg-type] Argument 1 to "map" of "Dataset" has incompatible type "Callable[[dict[str, ndarray[tuple[Any, ...], dtype[Any]]]],
#@ data_sets_joined_one_by_one
wy.data.concatenate(wy.data.Dataset(x=numbers(4, 7)), wy.data.Dataset(x=numbers(4, 7)))  # error: [call-arg] Too many arguments for "concatenate"
#@ columns_chosen_by_a_list
wy.data.Dataset(x=numbers(4, 7)).select_columns(["x"])  # error: [arg-type] Argument 1 to "select_columns" of "Dataset" has incompatible type "list[str]"; expected "str"
#@ state_of_a_module_by_a_path
wy.nn.Linear(in_, out).load_state_dict("weights.safetensors")  # error: [arg-type] Argument 1 to "load_state_dict" of "Module" has incompatible type "str"; expected "Mapping[str, ndarray[tuple[Any, ...],
#@ state_of_a_module_as_a_list
parts: list[str] = wy.nn.Linear(in_, out).state_dict()  # error: [assignment] Incompatible types in assignment (expression has type "dict[str, ndarray[tuple[Any, ...], dtype[Any]]]", variable has type
#@ module_put_into_training_by_text
wy.nn.Dropout(0.5).train("yes")  # error: [arg-type] Argument 1 to "train" of "Module" has incompatible type "str"; expected "bool"
#@ parameters_of_a_module_by_name
wy.nn.Linear(in_, out).parameters()["weight"]  # error: [call-overload] No overload variant of "__getitem__" of "list" matches argument type "str"
#@ weight_of_a_module_replaced
model = wy.nn.Linear(in_, out)
model.weight = model.weight * 0.5  # error: [assignment] Incompatible types in assignment (expression has type "Multiply[Parameter[tuple[In, Out]], Constant[Any], tuple[In, Out]]",
#@ bias_that_may_be_missing_is_used
def total(biased: bool) -> wy.Node:
    return wy.nn.Linear(in_, out, bias=biased).bias.sum()  # error: [union-attr] Item "None" of "Parameter[tuple[Out]] | None" has no attribute "sum"
#@ program_of_other_outputs
def predictor(program: wy.Program[list[NDArray[np.floating[Any]]], list[float]]) -> None: ...
predictor(wy.compile(x @ w))  # error: [arg-type] Argument 1 to "predictor" has incompatible type "Program[ndarray[tuple[Any, ...], dtype[floating[Any]]], float]"; expected
#@ evaluation_by_epochs
wy.compile((x @ w).mean()).evaluate({x: array}, epochs=2)  # error: [call-overload] Unexpected keyword argument "epochs" for overloaded function "evaluate" of "Program"
#@ means_of_several_outputs
mean: float = wy.compile([(x @ w).mean(), x.mean()]).evaluate({x: array})  # error: [assignment] Incompatible types in assignment (expression has type "list[float]", variable has type "float")
