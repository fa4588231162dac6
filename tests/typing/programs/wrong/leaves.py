# ruff: noqa
# fmt: off
#@ parameter_of_a_string
wy.Parameter("1.0")  # error: [call-overload] No overload variant of "Parameter" matches argument type "str"
#@ parameter_of_none
wy.Parameter(None)  # error: [call-overload] No overload variant of "Parameter" matches argument type "None"
#@ parameter_of_a_node
wy.Parameter(x)  # error: [call-overload] No overload variant of "Parameter" matches argument type "Input[tuple[Batch, In]]"
#@ parameter_without_a_value
wy.Parameter()  # error: [call-overload] All overload variants of "Parameter" require at least one argument
#@ misspelled_option
wy.Parameter(1.0, nmae="slope")  # error: [call-overload] Unexpected keyword argument "nmae" for overloaded function "Parameter"
#@ declared_rank
xa: wy.Input[tuple[Batch]] = wy.Input(array, (Batch, In))  # error: [assignment] Incompatible types in assignment (expression has type "Input[tuple[Batch, In]]", variable has type "Input[tuple[Batch]]")
#@ declared_axes
xa: wy.Input[tuple[Batch, Out]] = wy.Input(dims=(batch, in_))  # error: [arg-type] Argument "dims" to "Input" has incompatible type "tuple[Batch, In]"
#@ declared_axis_of_a_parameter
p: wy.Parameter[tuple[In]] = wy.Parameter(numbers(3), (Out,))  # error: [arg-type] Argument 2 to "Parameter" has incompatible type "tuple[type[Out]]"
#@ zeros_of_other_axes
p: wy.Parameter[tuple[In, Out]] = wy.Parameter.zeros((out, in_))  # error: [arg-type] Argument 1 to "zeros" of "Parameter" has incompatible type "tuple[Out, In]"
#@ zeros_of_a_string
wy.Parameter.zeros("3")  # error: [call-overload] No overload variant of "zeros" of "Parameter" matches argument type "str"
#@ one_unknown_axis_still_checks_the_other
u = wy.Input(dims=(time, wy.any_dim(7)))
x + u  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Input[tuple[Time, Any]]")
#@ mixed_axes_still_check
u = wy.Input(dims=(time, 7))
u + x  # error: [operator] Unsupported operand types for + ("Input[tuple[Time, Any]]" and "Input[tuple[Batch, In]]")
#@ input_of_a_string
wy.Input("x")  # error: [call-overload] No overload variant of "Input" matches argument type "str"
#@ set_on_an_op
(x @ w).set(1.0)  # error: [attr-defined] "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" has no attribute "set"
#@ set_to_a_string
x.set("1")  # error: [arg-type] Argument 1 to "set" of "Input" has incompatible type "str"
#@ set_to_none
w.set(None)  # error: [arg-type] Argument 1 to "set" of "Parameter" has incompatible type "None"
#@ set_to_a_node
x.set(x2)  # error: [arg-type] Argument 1 to "set" of "Input" has incompatible type "Input[tuple[Batch, In]]"
#@ constant_is_not_set
wy.Constant(1.0).set(2.0)  # error: [attr-defined] "Constant[tuple[()]]" has no attribute "set"
#@ gradient_of_an_op
(x @ w).gradient  # error: [attr-defined] "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]" has no attribute "gradient"
#@ gradient_of_an_input
x.gradient  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "gradient"
#@ gradient_is_read_only
w.gradient = w.gradient * 0.5  # error: [misc] Property "gradient" defined in "Parameter" is read-only
#@ value_is_read_only
w.value = numbers(7, 3)  # error: [misc] Property "value" defined in "Node" is read-only
#@ unknown_attribute_set
x.scale = 2.0  # error: [attr-defined] "Input[tuple[Batch, In]]" has no attribute "scale"
#@ parameter_required
def penalty(p: wy.Parameter[tuple[In, Out]]) -> None: ...
penalty(x.T @ y)  # error: [arg-type] Argument 1 to "penalty" has incompatible type "MatMul[Transpose[Any, tuple[In, Batch]], Input[tuple[Batch, Out]], tuple[In, Out]]"
#@ parameter_of_other_axes_required
def penalty(p: wy.Parameter[tuple[In, Out]]) -> None: ...
penalty(w2)  # error: [arg-type] Argument 1 to "penalty" has incompatible type "Parameter[tuple[Hid, Out]]"
#@ dim_size_of_a_string
Batch("32")  # error: [arg-type] Argument 1 to "Batch" has incompatible type "str"
#@ dim_is_not_an_int
n: int = batch  # error: [assignment] Incompatible types in assignment (expression has type "Batch", variable has type "int")
#@ dim_arithmetic
batch - 2.5  # error: [operator] Unsupported operand types for - ("Batch" and "float")