# ruff: noqa
# fmt: off
#@ exact_for_one_generation
s = x * x2 + x
reveal_type(s.parents)  # reveals: tuple[Multiply[Any, Any, tuple[Batch, In]], Input[tuple[Batch, In]]]
reveal_type(s.parents[1])  # reveals: Input[tuple[Batch, In]]
left, right = s.parents
reveal_type(left)  # reveals: Multiply[Any, Any, tuple[Batch, In]]
left0, left1 = left.parents
reveal_type(left0)  # reveals: Any
(only,) = x.tanh().parents
reveal_type(only)  # reveals: Input[tuple[Batch, In]]
#@ annotated_in_full
from wyrm.ops.elementwise.arithmetic import Add, Multiply
slope, intercept, x0 = wy.Parameter(0.5), wy.Parameter(0.0), wy.Input(1.0)
prediction: Add[Multiply[wy.Parameter, wy.Input], wy.Parameter] = slope * x0 + intercept
both: tuple[Multiply[wy.Parameter, wy.Input], wy.Parameter] = prediction.parents
gradient: NDArray[np.floating[Any]] = prediction.parents[1].gradient
inner: tuple[wy.Parameter, wy.Input] = prediction.parents[0].parents
#@ annotated_by_parents_only
prediction: wy.Node[tuple[Any, wy.Parameter]] = x @ w + b
bias: wy.Parameter = prediction.parents[1]
#@ parents_of_products
product = x @ w
reveal_type(product.parents)  # reveals: tuple[Input[tuple[Batch, In]], Parameter[tuple[In, Out]]]
reveal_type((product @ w.T).parents)  # reveals: tuple[MatMul[Any, Any, tuple[Batch, Out]], Transpose[Any, tuple[Out, In]]]
weight: NDArray[np.floating[Any]] = product.parents[1].gradient
#@ parents_of_lookups
rows = table.index(labels)
reveal_type(rows.parents)  # reveals: tuple[Parameter[tuple[Words, Emb]], IndexNode[tuple[Batch]]]
rows.parents[0].set(numbers(20, 12))
#@ parents_of_numbers
reveal_type((x + 1.0).parents)  # reveals: tuple[Input[tuple[Batch, In]], Constant[Any]]
reveal_type((2.0 / x).parents)  # reveals: tuple[Constant[Any], Input[tuple[Batch, In]]]
#@ parents_of_leaves
reveal_type(x.parents)  # reveals: tuple[()]
reveal_type(w.parents)  # reveals: tuple[()]
