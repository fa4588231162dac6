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
