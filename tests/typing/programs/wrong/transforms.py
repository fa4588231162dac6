# ruff: noqa
# fmt: off
#@ function_of_a_string
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
energy("g")  # error: [call-overload] No overload variant of "__call__" of "Function" matches argument type "str"
#@ function_without_arguments
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
energy()  # error: [call-overload] All overload variants of "__call__" of "Function" require at least one argument
#@ function_of_a_node_of_other_axes
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
energy(b)  # error: [arg-type] Argument 1 to "__call__" of "Function" has incompatible type "Parameter[tuple[Out]]"; expected "Node[Any,
#@ function_of_arrays_gives_arrays
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
energy(numbers(7)).backward()  # error: [attr-defined] "ndarray[tuple[Any, ...], dtype[floating[Any]]]" has no attribute "backward"
#@ value_of_a_function_of_arrays
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
value, gradient = energy.value_and_grad()(numbers(7))
value.forward()  # error: [attr-defined] "ndarray[tuple[Any, ...], dtype[floating[Any]]]" has no attribute "forward"
#@ body_that_does_not_fit
@wy.function
def energy(g: wy.Tensor[Batch, In]) -> wy.Tensor[()]:
    return (g @ w2).sum()  # error: [operator] Unsupported operand types for @
#@ body_of_another_result
@wy.function
def energy(g: wy.Tensor[Batch, In]) -> wy.Tensor[()]:
    return g.sum(axis=-1)  # error: [return-value] Incompatible return value type (got "Sum[Node[Any, tuple[Batch, In]], tuple[Batch]]", expected "Node[Any,
#@ function_of_a_node
wy.function(x)  # error: [call-overload] No overload variant of "function" matches argument type "Input[tuple[Batch, In]]"
#@ engine_by_position
wy.function(lambda v: v * v, "native")  # error: [call-overload] No overload variant of "function" matches argument types "Callable[[Any], Any]", "str"
#@ derivative_by_a_float
wy.function(lambda v: v * v).grad(wrt=1.0)  # error: [arg-type] Argument "wrt" to "grad" of "Function" has incompatible type "float"; expected "int | str | Sequence[int |
#@ derivative_by_option_of_another_library
wy.function(lambda v: v * v).grad(argnums=0)  # error: [call-arg] Unexpected keyword argument "argnums" for "grad" of "Function"
#@ gradient_function_by_the_graph
wy.grad(lambda v: v * v)  # error: [call-overload] No overload variant of "grad" matches argument type "Callable[[Any], Any]"
#@ jacobian_of_a_node
wy.jacobian(x)  # error: [arg-type] Argument 1 to "jacobian" has incompatible type "Input[tuple[Batch, In]]"; expected "Callable[..., object]"
#@ hessian_of_a_number
wy.hessian(3.0)  # error: [arg-type] Argument 1 to "hessian" has incompatible type "float"; expected "Callable[..., object]"
#@ jacobian_is_a_function
wy.jacobian(lambda v: v * v).shape  # error: [attr-defined] "Function[[VarArg(Any), KwArg(Any)], Any]" has no attribute "shape"
#@ mapped_number
wy.vmap(3.0)  # error: [arg-type] Argument 1 to "vmap" has incompatible type "float"; expected "Callable[..., object]"
#@ mapped_node
wy.vmap(x)  # error: [arg-type] Argument 1 to "vmap" has incompatible type "Input[tuple[Batch, In]]"; expected "Callable[..., object]"
#@ mapped_by_an_unknown_option
wy.vmap(lambda v: v * v, axis=0)  # error: [call-arg] Unexpected keyword argument "axis" for "vmap"
#@ product_of_an_array
wy.vjp(array, x, 1.0)  # error: [call-overload] No overload variant of "vjp" matches argument types "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]",
#@ product_by_a_name
wy.vjp(x @ w, "w", 1.0)  # error: [arg-type] Argument 2 to "vjp" has incompatible type "str"; expected "Sequence[Node[Any, Any]]"
#@ product_without_a_cotangent
wy.vjp(x @ w, w)  # error: [call-overload] No overload variant of "vjp" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In,
#@ product_by_a_string
wy.vjp(x @ w, w, "ones")  # error: [call-overload] No overload variant of "vjp" matches argument types "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In,
#@ product_of_other_axes
r: wy.Tensor[Out, In] = wy.vjp(x @ w, w, numbers(4, 3))  # error: [arg-type] Argument 2 to "vjp" has incompatible type "Parameter[tuple[In, Out]]"; expected "Node[Any, tuple[Out, In]]"
#@ change_of_other_axes
r: wy.Tensor[In, Out] = wy.jvp(x @ w, w, numbers(7, 3))  # error: [arg-type] Argument 1 to "jvp" has incompatible type "MatMul[Input[tuple[Batch, In]], Any, tuple[Batch, Out]]"; expected
#@ change_without_tangents
wy.jvp(lambda v: v * v, (array,))  # error: [call-overload] No overload variant of "jvp" matches argument types "Callable[[Any], Any]", "tuple[ndarray[tuple[Any, ...],
#@ change_along_a_number
wy.jvp(lambda v: v * v, 3.0, 1.0)  # error: [call-overload] No overload variant of "jvp" matches argument types "Callable[[Any], Any]", "float", "float"
#@ pullback_of_two
value, pullback, rest = wy.vjp(lambda v: v * v, array)  # error: [misc] Need more than 2 values to unpack (3 expected)
#@ step_without_a_pair
start = wy.Constant(np.zeros(7), dims=(in_,))
wy.scan(lambda carry, row: carry + row, start, x)  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[In]], Node[Any, tuple[In]]],
#@ step_of_one_argument
start = wy.Constant(np.zeros(7), dims=(in_,))
wy.scan(lambda carry: (carry, None), start, x)  # error: [misc] Cannot infer type of lambda
#@ step_that_returns_its_carry
def step(h: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Hid]:
    return (h @ wh + row @ w1).tanh()
wy.scan(step, h0, sequence.swapaxes(0, 1))  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Batch,
#@ step_that_changes_its_carry
def step(h: wy.Tensor[Batch, In], row: wy.Tensor[Batch, In]) -> tuple[wy.Tensor[Batch, Hid], None]:
    return h @ w1 + row @ w1, None
wy.scan(step, x, sequence.swapaxes(0, 1))  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, In]], Node[Any, tuple[Batch,
#@ carry_of_other_axes
def step(h: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, In]) -> tuple[wy.Tensor[Batch, Hid], None]:
    return (h @ wh + row @ w1).tanh(), None
wy.scan(step, x, sequence.swapaxes(0, 1))  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Batch,
#@ rows_of_other_axes
def step(h: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, In]) -> tuple[wy.Tensor[Batch, Hid], None]:
    return (h @ wh + row @ w1).tanh(), None
wy.scan(step, h0, sequence)  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Batch,
#@ result_of_a_scan
last, sums = wy.scan(lambda carry, row: (carry + row, row.sum()), vector, x)
r: wy.Tensor[In] = sums  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch]]", variable has type "Node[Any,
#@ last_of_a_scan
last, sums = wy.scan(lambda carry, row: (carry + row, row.sum()), vector, x)
last @ b  # error: [operator] Unsupported operand types for @
#@ scan_is_a_pair
wy.scan(lambda carry, row: (carry + row, None), vector, x).sum()  # error: [attr-defined] "tuple[Node[Any, tuple[In]], None]" has no attribute "sum"
#@ length_in_part
wy.scan(lambda carry, _: (carry, None), scale, length=2.5)  # error: [call-overload] No overload variant of "scan" matches argument types "Callable[[Any, Any], tuple[Any, None]]",
#@ scan_of_a_node
wy.scan(x, vector, x)  # error: [call-overload] No overload variant of "scan" matches argument types "Input[tuple[Batch, In]]", "Input[tuple[In]]",
#@ condition_of_many
wy.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, x)  # error: [arg-type] Argument 1 to "while_loop" has incompatible type "Callable[[Node[Any, tuple[Batch, In]]], Less[Node[Any,
#@ condition_that_is_no_function
wy.while_loop(x.sum() < 100.0, lambda v: v * 2.0, x)  # error: [call-overload] No overload variant of "while_loop" matches argument types "Less[Sum[Any, tuple[()]], Constant[Any],
#@ loop_that_changes_its_axes
wy.while_loop(lambda v: v.sum() < 100.0, lambda v: v.T, x)  # error: [arg-type] Argument 2 to "while_loop" has incompatible type "Callable[[Node[Any, tuple[Batch, In]]], Transpose[Any,
#@ loop_of_steps_in_part
wy.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, scale, max_steps=10.5)  # error: [call-overload] No overload variant of "while_loop" matches argument types "Callable[[Any], Any]", "Callable[[Any], Any]",
#@ loop_result
r: wy.Tensor[Batch] = wy.while_loop(lambda v: v.sum() < 100.0, lambda v: v * 2.0, x)  # error: [arg-type] Argument 3 to "while_loop" has incompatible type "Input[tuple[Batch, In]]"; expected "Shaped[Node[Any, Any], tuple[Batch]]"
#@ branch_by_element
wy.cond(x > 0.0, lambda v: v, lambda v: v * 0.0, x)  # error: [arg-type] Argument 1 to "cond" has incompatible type "Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch,
#@ branches_of_other_axes
wy.cond(x.sum() > 0.0, lambda: x, lambda: y)  # error: [misc] Cannot infer value of type parameter "Carry" of "cond"
#@ branches_that_are_nodes
wy.cond(x.sum() > 0.0, x, x2)  # error: [call-overload] No overload variant of "cond" matches argument types "Greater[Sum[Any, tuple[()]], Constant[Any],
#@ branch_that_does_not_fit
wy.cond(x.sum() > 0.0, lambda v: v @ w, lambda v: v @ w2, x)  # error: [operator] Unsupported operand types for @
#@ one_branch
wy.cond(x.sum() > 0.0, lambda: x)  # error: [call-overload] No overload variant of "cond" matches argument types "Greater[Sum[Any, tuple[()]], Constant[Any],
#@ result_of_branches
r: wy.Tensor[Batch, Out] = wy.cond(x.sum() > 0.0, lambda v: v.sqrt(), lambda v: v * 0.0, x)  # error: [arg-type] Argument 2 to "cond" has incompatible type "Callable[[Node[Any, tuple[Batch, In]]], Sqrt[Node[Any,
#@ branches_of_two_operands
wy.cond(x.sum() > 0.0, lambda v: v, lambda v: v * 2.0, x, w)  # error: [misc] Cannot infer type of lambda
#@ custom_rule_of_one_value
@wy.custom_vjp
def clipped(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, In]:
    return v
clipped.define(lambda v: v, lambda kept, gradient: (gradient,))  # error: [arg-type] Argument 1 to "define" of "CustomVjp" has incompatible type "Callable[[Node[Any, tuple[Batch, In]]],
#@ custom_rule_without_a_tuple
@wy.custom_vjp
def clipped(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, In]:
    return v
clipped.define(lambda v: (v, None), lambda kept, gradient: gradient)  # error: [arg-type] Argument 2 to "define" of "CustomVjp" has incompatible type "Callable[[None, Node[Any, tuple[Batch, In]]],
#@ custom_rule_of_other_axes
@wy.custom_vjp
def projected(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
    return v @ w
projected.define(lambda v: (v @ w1, v), lambda kept, gradient: (gradient,))  # error: [arg-type] Argument 1 to "define" of "CustomVjp" has incompatible type
#@ custom_function_of_other_axes
@wy.custom_vjp
def clipped(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, In]:
    return v
clipped(y)  # error: [arg-type] Argument 1 to "__call__" of "_CustomDerivative" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any,
#@ computed_again_with_other_axes
def block(v: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Hid]:
    return (v @ wh).tanh()
r: wy.Tensor[Batch, In] = wy.checkpoint(block, h0)  # error: [arg-type] Argument 1 to "checkpoint" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]]], Node[Any,
#@ computed_again_of_an_array
wy.checkpoint(lambda v: v.tanh(), array)  # error: [arg-type] Argument 2 to "checkpoint" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]";
#@ updates_of_a_parameter
wy.updating(x @ w, {w: w * 0.9})  # error: [dict-item] Dict entry 0 has incompatible type "Parameter[tuple[In, Out]]": "Multiply[Parameter[tuple[In, Out]],
#@ updates_by_name
wy.updating(x @ w, {"mean": x.mean()})  # error: [dict-item] Dict entry 0 has incompatible type "str": "Mean[Input[tuple[Batch, In]], tuple[()]]"; expected "Buffer[Any]":
#@ updates_by_an_array
mean = wy.Buffer(np.zeros(7), dims=(In,))
wy.updating(x @ w, {mean: numbers(7)})  # error: [dict-item] Dict entry 0 has incompatible type "Buffer[tuple[In]]": "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]";
#@ scan_carry_that_changes_axes
steps = wy.Input(dims=(time, batch, hid))
def step(carry: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, Hid]) -> tuple[wy.Tensor[Batch, Out], wy.Tensor[Batch, Hid]]:
    return carry @ w2, carry
wy.scan(step, h0, steps)  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Batch, Hid]]], tuple[Node[Any, tuple[Batch,
#@ scan_of_a_cell_of_another_row
steps = wy.Input(dims=(time, batch, emb))
def step(carry: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, Hid]) -> tuple[wy.Tensor[Batch, Hid], None]:
    return carry + row, None
wy.scan(step, h0, steps)  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Batch, Hid]]], tuple[Node[Any, tuple[Batch,
#@ scan_last_in_another_product
steps = wy.Input(dims=(time, batch, hid))
last, _ = wy.scan(lambda h, row: ((h + row).tanh(), None), h0, steps)
last @ w  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Hid]]" and "Parameter[tuple[In, Out]]")
#@ scan_without_a_result
steps = wy.Input(dims=(time, batch, hid))
def step(carry: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Hid]:
    return carry + row
wy.scan(step, h0, steps)  # error: [arg-type] Argument 1 to "scan" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Batch, Hid]]], Node[Any, tuple[Batch, Hid]]]";
#@ scan_with_steps_in_part
wy.scan(lambda carry, row: (carry, None), vector, None, 2.5)  # error: [call-overload] No overload variant of "scan" matches argument types "Callable[[Any, Any], tuple[Any, None]]", "Input[tuple[In]]", "None", "float"
#@ scan_for_a_class
wy.scan(wy.nn.Linear, h0, sequence)  # error: [arg-type] Argument 1 to "scan" has incompatible type "type[Linear[In@Linear, Out]]"; expected "Callable[[Node[Any, tuple[Batch, Hid]], Node[Any, tuple[Time,
#@ loop_of_a_carry_that_changes_axes
def grow(carry: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Out]:
    return carry @ w2
wy.while_loop(lambda carry: carry.sum() < 1.0, grow, h0)  # error: [arg-type] Argument 2 to "while_loop" has incompatible type "Callable[[Node[Any, tuple[Batch, Hid]]], Node[Any, tuple[Batch, Out]]]"; expected
#@ loop_with_its_functions_exchanged
wy.while_loop(lambda v: v * 2.0, lambda v: v.sum() < 1.0, x)  # error: [return-value] Incompatible return value type (got "Less[Sum[Any, tuple[()]], Constant[Any], tuple[()]]", expected "Node[Any, tuple[Batch, In]]")
#@ loop_with_a_limit_by_name
wy.while_loop(lambda v: v.sum() < 1.0, lambda v: v * 2.0, x, max_steps="10")  # error: [call-overload] No overload variant of "while_loop" matches argument types "Callable[[Any], Any]", "Callable[[Any], Any]", "Input[tuple[Batch, In]]", "str"
