# ruff: noqa
# fmt: off
#@ draws_of_other_axes
r: wy.Tensor[Batch, Out] = wy.random.normal((batch, in_))  # error: [arg-type] Argument 1 to "__call__" of "FloatDraw" has incompatible type "tuple[Batch, In]"; expected "tuple[int |
#@ draws_by_an_unknown_option
wy.random.exponential((batch,), loc=1.0)  # error: [call-overload] Unexpected keyword argument "loc" for overloaded function "__call__" of "FloatDraw"
#@ draws_as_an_index
w.take(wy.random.normal((batch,)), axis=0)  # error: [call-overload] No overload variant of "take" of "Node" matches argument types "Node[Any, tuple[Batch]]", "int"
#@ logits_without_axes
wy.random.categorical(x.sum())  # error: [arg-type] Argument 1 to "categorical" has incompatible type "Sum[Input[tuple[Batch, In]], tuple[()]]"
#@ draws_of_a_node
wy.random.normal(x)  # error: [call-overload] No overload variant of "__call__" of "FloatDraw" matches argument type "Input[tuple[Batch, In]]"
#@ draws_along_one_axis_of_another_name
r: wy.Tensor[Hid] = wy.random.normal(batch)  # error: [arg-type] Argument 1 to "__call__" of "FloatDraw" has incompatible type "Batch"; expected "Hid | type[Hid]"
#@ draws_along_one_axis_as_a_matrix
wy.random.normal(batch) @ w  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch]]" and "Parameter[tuple[In, Out]]")
#@ size_of_an_axis_as_a_text
size: str = batch.size  # error: [assignment] Incompatible types in assignment (expression has type "int | Any", variable has type "str")
