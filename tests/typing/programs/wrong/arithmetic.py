# ruff: noqa
# fmt: off
#@ add_of_other_shape
x + y  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ multiply_of_other_shape
(x @ w1) * y  # error: [operator] Unsupported operand types for * ("MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Hid]], tuple[Batch, Hid]]" and "Input[tuple[Batch, Out]]")
#@ add_of_other_rank
sequence + x  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, Time, In]]" and "Input[tuple[Batch, In]]")
#@ bias_over_the_batch_axis
per_row = wy.Parameter.zeros((batch,))
x + per_row  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Parameter[tuple[Batch]]")
#@ bias_of_other_axis
x @ w + b1  # error: [operator] Unsupported operand types for + ("MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" and "Parameter[tuple[Hid]]")
#@ table_of_other_axes
position = wy.Parameter.zeros((in_, time))
sequence + position  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, Time, In]]" and "Parameter[tuple[In, Time]]")
#@ reduced_and_not_kept
x - x.mean(axis=-1)  # error: [operator] Unsupported operand types for - ("Input[tuple[Batch, In]]" and "Mean[Input[tuple[Batch, In]], tuple[Batch]]")
#@ kept_axis_of_other_batch
x + sequence.sum(axis=-1, keepdims=True)  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Sum[Input[tuple[Batch, Time, In]], tuple[Batch, Time, One]]")
#@ reduced_then_added
x.sum(axis=-1) + vector  # error: [operator] Unsupported operand types for + ("Sum[Input[tuple[Batch, In]], tuple[Batch]]" and "Input[tuple[In]]")
#@ add_of_a_string
x + "1"  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "str"
#@ add_of_none
x + None  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "None"
#@ multiply_by_none
x * None  # error: [operator] No overload variant of "__mul__" of "Node" matches argument type "None"
#@ add_of_a_list
x + [1.0, 2.0]  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "list[float]"
#@ string_on_the_left
"1" * x  # error: [operator] Unsupported operand types for * ("str" and "Input[tuple[Batch, In]]")
#@ dim_is_not_a_number
x + batch  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "Batch"
#@ add_of_indices
x + tokens  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "IndexInput[tuple[Batch, Time]]"
#@ indices_plus_a_float
labels + 1.5  # error: [operator] No overload variant of "__add__" of "IndexNode" matches argument type "float"
#@ indices_plus_indices_of_other_shape
tokens + labels  # error: [operator] Unsupported operand types for + ("IndexInput[tuple[Batch, Time]]" and "IndexInput[tuple[Batch]]")
#@ indices_compared_with_a_float
labels > 0.5  # error: [operator] No overload variant of "__gt__" of "IndexNode" matches argument type "float"
#@ indices_compared_with_a_node
tokens == x  # error: [operator] No overload variant of "__eq__" of "IndexNode" matches argument type "Input[tuple[Batch, In]]"
#@ indices_of_other_shape
tokens != labels  # error: [operator] Unsupported operand types for != ("IndexInput[tuple[Batch, Time]]" and "IndexInput[tuple[Batch]]")
#@ equality_of_other_shape
x == y  # error: [operator] Unsupported operand types for == ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ comparison_of_other_shape
x > y  # error: [operator] Unsupported operand types for > ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ comparison_with_a_string
x < "0"  # error: [operator] No overload variant of "__lt__" of "Node" matches argument type "str"
#@ equal_of_other_shape
x.equal(y)  # error: [arg-type] Argument 1 to "equal" of "Node" has incompatible type "Input[tuple[Batch, Out]]"
#@ masks_of_other_shapes
(x > 0) & (y > 0)  # error: [operator] Unsupported operand types for & ("Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]" and "Greater[Input[tuple[Batch, Out]], Constant[Any], tuple[Batch, Out]]")
#@ where_of_other_shapes
wy.where(x > 0, x, y)  # error: [arg-type] Argument 3 to "where" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ where_by_mask_of_other_shape
wy.where(y > 0, x, 0.0)  # error: [misc] Cannot infer value of type parameter "Shape" of "where"
#@ where_by_indices
wy.where(labels, x, x2)  # error: [call-overload] No overload variant of "where" matches argument types "IndexInput[tuple[Batch]]", "Input[tuple[Batch, In]]", "Input[tuple[Batch, In]]"
#@ where_without_an_alternative
wy.where(x > 0, x)  # error: [call-overload] No overload variant of "where" matches argument types "Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]", "Input[tuple[Batch, In]]"
#@ where_result
r: wy.Tensor[Batch, Out] = wy.where(x > 0, x, 0.0)  # error: [arg-type] Argument 1 to "where" has incompatible type "Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]"
#@ maximum_of_other_shape
x.maximum(y)  # error: [arg-type] Argument 1 to "maximum" of "Node" has incompatible type "Input[tuple[Batch, Out]]"
#@ maximum_of_a_string
x.maximum("0")  # error: [call-overload] No overload variant of "maximum" of "Node" matches argument type "str"
#@ power_of_other_shape
x ** y  # error: [operator] Unsupported operand types for ** ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ negative_result
r: wy.Tensor[Batch, Out] = -x  # error: [assignment] Incompatible types in assignment (expression has type "Negative[Input[tuple[Batch, In]], tuple[Batch, In]]"
#@ typo_in_a_method
x.tahn()  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "tahn"
#@ argument_for_a_method_without
x.tanh(2.0)  # error: [call-arg] Too many arguments for "tanh" of "Node"
#@ clip_by_a_string
x.clip("0", 1.0)  # error: [call-overload] No overload variant of "clip" of "Node" matches argument types "str", "float"
#@ dropout_without_a_rate
x.dropout()  # error: [call-arg] Missing positional argument "rate" in call to "dropout" of "Node"
#@ softmax_axis_by_name
x.softmax(axis="classes")  # error: [arg-type] Argument "axis" to "softmax" of "Node" has incompatible type "str"
#@ numpy_function_on_a_node
np.tanh(x)  # error: [call-overload] No overload variant of "__call__" of "_UFunc_Nin1_Nout1" matches argument type "Input[tuple[Batch, In]]"
#@ item_assignment
x[0] = 1.0  # error: [index] Unsupported target for indexed assignment ("Input[tuple[Batch, In]]")
#@ wrong_operand_deep_in_a_formula
scale + x * (scale - y / (scale + x * (1.0 - x)))  # error: [operator] Unsupported operand types for / ("Input[tuple[Batch, Out]]" and "Add[
#@ maximum_of_other_axes_names_both
x.maximum(y)  # error: [arg-type] Argument 1 to "maximum" of "Node" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ maximum_beside_a_product_of_other_axes
x.maximum(y * 2.0)  # error: [arg-type] Argument 1 to "maximum" of "Node" has incompatible type "Multiply[Input[tuple[Batch, Out]], Constant[Any], tuple[Batch, Out]]"; expected "Shaped[Any,
#@ minimum_of_other_axes_inside_a_maximum
x.maximum(x2.minimum(y))  # error: [arg-type] Argument 1 to "minimum" of "Node" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Batch, In]]]"
#@ comparison_with_a_product_of_other_axes
x < y * 2.0  # error: [operator] Unsupported operand types for < ("Input[tuple[Batch, In]]" and "Multiply[Input[tuple[Batch, Out]], Constant[Any], tuple[Batch, Out]]")
#@ maximum_function_of_other_axes
wy.maximum(x, y * 0.1)  # error: [arg-type] Argument 2 to "maximum" has incompatible type "Multiply[Input[tuple[Batch, Out]], Constant[Any], tuple[Batch, Out]]"; expected "Shaped[Any,
#@ maximum_result_of_other_axes
r: wy.Tensor[Batch, Out] = x.maximum(x * 2.0)  # error: [assignment] Incompatible types in assignment (expression has type "Maximum[Input[tuple[Batch, In]], Any, tuple[Batch, In]]", variable has type "Node[Any,
#@ nested_maximum_in_another_product
x.maximum(x2.minimum(x.maximum(x2 * 0.5))) @ w2  # error: [operator] Unsupported operand types for @ ("Maximum[Input[tuple[Batch, In]], Any, tuple[Batch, In]]" and "Parameter[tuple[Hid, Out]]")
#@ comparison_result_of_other_axes
r: wy.Tensor[Batch, Out] = x < x * 2.0  # error: [assignment] Incompatible types in assignment (expression has type "Less[Input[tuple[Batch, In]], Any, tuple[Batch, In]]", variable has type "Node[Any,
#@ row_against_a_column_as_a_row
column = wy.Input(dims=(batch, wy.One()))
r: wy.Tensor[In] = vector.maximum(column)  # error: [arg-type] Argument 1 to "maximum" of "Node" has incompatible type "Input[tuple[Batch, One]]"
