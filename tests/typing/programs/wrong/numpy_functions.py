# ruff: noqa
# fmt: off
#@ product_function_of_other_axes
wy.matmul(x, y)  # error: [arg-type] Argument 2 to "matmul" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ product_function_result
wy.matmul(x, w) + x  # error: [operator] Unsupported operand types for +
#@ dot_product_of_other_axes
wy.dot(x, y)  # error: [arg-type] Argument 2 to "dot" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ product_of_integers
wy.outer(labels, vector)  # error: [call-overload] No overload variant of "outer" matches argument types "IndexInput[tuple[Batch]]", "Input[tuple[In]]"
#@ mean_without_nan_result
wy.nanmean(x, axis=-1) + vector  # error: [operator] Unsupported operand types for +
#@ median_of_text
wy.median("x")  # error: [arg-type] Argument 1 to "__call__" of "ReductionFunction" has incompatible type "str"
#@ median_is_a_node
middle: float = wy.median(x)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[()]]", variable has type "float")
#@ positions_are_no_numbers
wy.searchsorted(vector, x).tanh()  # error: [attr-defined] "IndexNode[tuple[Batch, In]]" has no attribute "tanh"
#@ interpolated_result
wy.interp(x, [0.0, 1.0], [1.0, 3.0]) + y  # error: [operator] Unsupported operand types for + ("Node[Any, tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ special_function_of_text
wy.special.gammaln("x")  # error: [call-overload] No overload variant of "gammaln" matches argument type "str"
#@ special_function_of_other_axes
wy.special.xlogy(x, y)  # error: [arg-type] Argument 2 to "xlogy" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ special_function_result
r: wy.Tensor[Batch] = wy.special.j0(x)  # error: [arg-type] Argument 1 to "j0" has incompatible type "Input[tuple[Batch, In]]"; expected "Node[Any, tuple[Batch]] | float
#@ misspelled_special_function
wy.special.gamaln(x)  # error: [attr-defined] Module has no attribute "gamaln"
#@ count_plus_a_node
(x > 0.5).sum() + x  # error: [operator] No overload variant of "__add__" of "IndexNode" matches argument type "Input[tuple[Batch, In]]"
#@ integers_plus_a_float
labels + 0.5  # error: [operator] No overload variant of "__add__" of "IndexNode" matches argument type "float"
#@ integers_times_a_node
labels * x  # error: [operator] No overload variant of "__mul__" of "IndexNode" matches argument type "Input[tuple[Batch, In]]"
#@ integers_of_other_axes
labels + wy.IndexInput([1, 2, 3, 4, 5], dims=(time,))  # error: [operator] Unsupported operand types for +
#@ true_quotient_is_no_index
x.take(labels / 2)  # error: [call-overload] No overload variant of "take" of "Node" matches argument type "Node[Any, tuple[Batch]]"
#@ elements_at_a_float
x[0.5]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "float"
#@ elements_at_a_node
x[vector]  # error: [call-overload] No overload variant of "__getitem__" of "Node" matches argument type "Input[tuple[In]]"
#@ rows_at_indices_result
r: wy.Tensor[Batch, Out] = x[labels]  # error: [assignment] Incompatible types in assignment
#@ set_without_a_key
x.at.set("one")  # error: [arg-type] Argument 1 to "set" of "Updates" has incompatible type "str"
#@ function_chosen_by_a_float
wy.switch(0.5, [lambda: x, lambda: x2])  # error: [call-overload] No overload variant of "switch" matches argument types "float"
#@ function_chosen_by_many
wy.switch(labels, [lambda: x, lambda: x2])  # error: [arg-type] Argument 1 to "switch" has incompatible type "IndexInput[tuple[Batch]]"
#@ chosen_function_result
def double(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, In]:
    return v * 2.0
wy.switch(wy.IndexInput(2), [double, double], x) + y  # error: [operator] Unsupported operand types for +
#@ chosen_function_of_other_axes
def project(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
    return v @ w
wy.switch(wy.IndexInput(1), [project, project], y)  # error: [list-item] List item 0 has incompatible type
#@ least_squares_of_other_rows
wy.linalg.lstsq(x, w)  # error: [arg-type] Argument 2 to "lstsq" has incompatible type "Parameter[tuple[In, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ least_squares_result
r: wy.Tensor[Batch, In] = wy.linalg.lstsq(x, y).x  # error: [assignment] Incompatible types in assignment
#@ condition_of_a_vector
wy.linalg.cond(vector)  # error: [arg-type] Argument 1 to "cond" has incompatible type
#@ resampled_channels
wy.nn.Conv2d(hid, out, 3)(wy.nn.Upsample(scale_factor=2)(pictures))  # error: [arg-type] Argument 1 to "__call__" of "Upsample" has incompatible type
#@ upsampling_of_rows
wy.nn.Upsample(scale_factor=2)(x)  # error: [arg-type] Argument 1 to "__call__" of "Upsample" has incompatible type
#@ group_without_a_list
wy.optim.SGD({"parameters": [w]}, learning_rate=0.1)  # error: [dict-item] Dict entry 0 has incompatible type "str": "list[Parameter[tuple[In, Out]]]"
#@ parameter_group_of_a_tuple
wy.optim.SGD([("parameters", [w])], learning_rate=0.1)  # error: [list-item] List item 0 has incompatible type
#@ unknown_option_of_every_optimizer
wy.optim.AdamW([w], learning_rate=0.1, max_nrm=1.0)  # error: [call-arg] Unexpected keyword argument "max_nrm" for "AdamW"
#@ epochs_left_out
wy.train.fit(wy.compile((x @ w).mean(), wy.optim.SGD([w], learning_rate=0.1)), {x: array})  # error: [call-arg] Missing named argument "epochs" for "fit"
#@ callback_that_is_a_function
train = wy.compile((x @ w).mean(), wy.optim.SGD([w], learning_rate=0.1))
wy.train.fit(train, {x: array}, epochs=1, callbacks=[lambda run: None])  # error: [list-item] List item 0 has incompatible type
#@ history_is_no_number
train = wy.compile((x @ w).mean(), wy.optim.SGD([w], learning_rate=0.1))
last: float = wy.train.fit(train, {x: array}, epochs=1)  # error: [assignment] Incompatible types in assignment (expression has type "History", variable has type "float")
#@ summary_of_a_node_for_an_input
wy.summary(x @ w, x)  # error: [call-overload] No overload variant of "summary" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]", "Input[tuple[Batch, In]]"
#@ summary_is_no_list
wy.summary(wy.nn.Linear(in_, out), x)[0]  # error: [index] Value of type "Summary" is not indexable
#@ group_without_parameters
wy.optim.AdamW([{"params": [w]}])  # error: [list-item] List item 0 has incompatible type "dict[str, list[Parameter[tuple[In, Out]]]]"; expected "Parameter[Any] | ParameterGroup"
#@ group_with_a_misspelled_option
wy.optim.AdamW([{"parameters": [w], "weight_decya": 0.1}])  # error: [list-item] List item 0 has incompatible type "dict[str, object]"; expected "Parameter[Any] | ParameterGroup"
#@ group_with_an_option_by_name
wy.optim.SGD([{"parameters": [w], "momentum": "0.9"}], 0.1)  # error: [list-item] List item 0 has incompatible type "dict[str, Sequence[Iterable[Any]]]"; expected "Parameter[Any] | ParameterGroup"
#@ group_of_buffers
wy.optim.SGD([{"parameters": [wy.nn.BatchNorm(in_).running_mean]}], 0.1)  # error: [list-item] List item 0 has incompatible type "dict[str, list[Buffer[tuple[In]]]]"; expected "Parameter[Any] | ParameterGroup"
#@ profile_of_batches_without_data
wy.compile(x.sum()).profile(batch_size=4)  # error: [call-overload] No overload variant of "profile" of "Program" matches argument type "int"
#@ joined_parts_of_other_rows
x.concat(vector)  # error: [arg-type] Argument 1 to "concat" of "Node" has incompatible type "Input[tuple[In]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ dot_products_of_other_rows
x.vector_dot(y)  # error: [arg-type] Argument 1 to "vector_dot" of "Node" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ exponentials_by_numpy
np.exp(x)  # error: [call-overload] No overload variant of "__call__" of "_UFunc_Nin1_Nout1" matches argument type "Input[tuple[Batch, In]]"
#@ norm_by_numpy
np.linalg.norm(w)  # error: [call-overload] No overload variant of "norm" matches argument type "Parameter[tuple[In, Out]]"
