# ruff: noqa
# fmt: off
#@ linear_regression
slope, intercept = wy.Parameter(1.0, name="slope"), wy.Parameter(0.0, name="intercept")
x0, y0 = wy.Input(name="x"), wy.Input(name="y")
prediction = slope * x0 + intercept
reveal_type(prediction)  # reveals: Add[Multiply[Any, Any, tuple[()]], Parameter[tuple[()]], tuple[()]]
loss = (y0 - prediction).square()
reveal_type(loss)  # reveals: Square[Subtract[Any, Any, tuple[()]], tuple[()]]
x0.set(2.0)
y0.set(np.float32(11.0))
loss.forward()
loss.backward(1.0)
loss.zero_gradient()
#@ numpy_scalars_on_both_sides
r1: wy.Tensor[Batch, In] = np.float32(2.0) * x
r2: wy.Tensor[Batch, In] = x * np.float64(2.0) + np.float32(1)
r3: wy.Tensor[Batch, In] = np.int64(2) + x
r4: wy.Tensor[Batch, In] = np.float64(2.0) * x - np.float32(1)
r5: wy.Tensor[Batch, In] = np.float64(2.0) / x ** np.int64(2)
#@ python_numbers_on_both_sides
reveal_type(x * 2)  # reveals: Multiply[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(2.0 * x)  # reveals: Multiply[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(1 - x)  # reveals: Subtract[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x / 3.0)  # reveals: Divide[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x**2)  # reveals: Power[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(2**x)  # reveals: Power[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
#@ arrays_on_both_sides
reveal_type(x * array)  # reveals: Multiply[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(array * x)  # reveals: Multiply[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(array - x)  # reveals: Subtract[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(np.arange(7) + x)  # reveals: Add[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
#@ same_shape
reveal_type(x + x2)  # reveals: Add[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Batch, In] = x - x2
r2: wy.Tensor[Batch, In] = x * x2
r3: wy.Tensor[Batch, In] = x / x2
r4: wy.Tensor[Batch, In] = x**x2
reveal_type(-x)  # reveals: Negative[Input[tuple[Batch, In]], tuple[Batch, In]]
#@ bias_on_either_side
reveal_type(x + vector)  # reveals: Add[Input[tuple[Batch, In]], Input[tuple[In]], tuple[Batch, In]]
reveal_type(vector - x)  # reveals: Subtract[Input[tuple[In]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(sequence * vector)  # reveals: Multiply[Input[tuple[Batch, Time, In]], Input[tuple[In]], tuple[Batch, Time, In]]
#@ table_on_either_side
position = wy.Parameter.zeros((time, in_))
reveal_type(sequence + position)  # reveals: Add[Input[tuple[Batch, Time, In]], Parameter[tuple[Time, In]], tuple[Batch, Time, In]]
reveal_type(position + sequence)  # reveals: Add[Parameter[tuple[Time, In]], Input[tuple[Batch, Time, In]], tuple[Batch, Time, In]]
causal = wy.Constant(np.tril(np.ones((5, 5))), dims=(time, time), dtype=np.float32)
r: wy.Tensor[Batch, Heads, Time, Time] = scores * causal
#@ kept_axis_on_either_side
total = x.sum(axis=-1, keepdims=True)
reveal_type(x / total)  # reveals: Divide[Input[tuple[Batch, In]], Sum[Any, tuple[Batch, One]], tuple[Batch, In]]
reveal_type(total - x)  # reveals: Subtract[Sum[Any, tuple[Batch, One]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(total + total)  # reveals: Add[Sum[Any, tuple[Batch, One]], Sum[Any, tuple[Batch, One]], tuple[Batch, One]]
#@ scalar_node_on_either_side
reveal_type(x * scale)  # reveals: Multiply[Input[tuple[Batch, In]], Parameter[tuple[()]], tuple[Batch, In]]
reveal_type(scale - x)  # reveals: Subtract[Parameter[tuple[()]], Input[tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Out] = b + scale
r2: wy.Tensor[()] = scale + scale
r3: wy.Tensor[Batch, Time, In] = sequence / scale
#@ axes_of_size_one_elsewhere
mask = wy.Input(np.ones((4, 1, 5), np.float32), dims=(batch, wy.One(), time))
weights = wy.Input(numbers(4, 6, 5), dims=(batch, source, time))
r1: wy.Tensor[Batch, Source, Time] = weights * mask
r2: wy.Tensor[Batch, Source, Time] = mask * weights
row = wy.Input(numbers(1, 7), dims=(wy.One(), in_))
r3: wy.Tensor[Batch, In] = x + row
r4: wy.Tensor[Batch, In] = row + x
#@ comparisons
reveal_type(x > 0)  # reveals: Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(0.5 < x)  # reveals: Greater[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x <= x2)  # reveals: LessEqual[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: LessEqual[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x == 0.0)  # reveals: Equal[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x != vector)  # reveals: NotEqual[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: NotEqual[Input[tuple[Batch, In]], Input[tuple[In]], tuple[Batch, In]]
reveal_type(x == array)  # reveals: Equal[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x == x2)  # reveals: Equal[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Equal[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Batch, In] = wy.where(x == 0.0, x2, x)
keys: dict[wy.Node, int] = {x: 1}
r2: bool = x is x2 or x in keys
r3: bool = x != "a word"
reveal_type(x.equal(0.0))  # reveals: Equal[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x.not_equal(vector))  # reveals: NotEqual[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: NotEqual[Input[tuple[Batch, In]], Input[tuple[In]], tuple[Batch, In]]
reveal_type(x >= array)  # reveals: GreaterEqual[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
#@ masks
mask = (x > 0.2) & (x < 0.8)
reveal_type(mask)  # reveals: LogicalAnd[Greater[Any, Any, tuple[Batch, In]], Less[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
reveal_type(~mask)  # reveals: LogicalNot[LogicalAnd[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
reveal_type(mask | (x2 > 0))  # reveals: LogicalOr[LogicalAnd[Any, Any, tuple[Batch, In]], Greater[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
share: wy.Tensor[()] = mask.astype(np.float32).mean()
#@ where
reveal_type(wy.where(x > 0, x, x2))  # reveals: Where[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(wy.where(x > 0, x, 0.0))  # reveals: Where[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(wy.where(x > 0, 1.0, x))  # reveals: Where[Constant[Any], Input[tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Batch, In] = wy.where(x > 0, 1.0, 0.0)
r2: wy.Tensor[Batch, In] = wy.where(x > 0, x, scale)
r3: wy.Tensor[Batch, In] = wy.where(array > 0, x, 0.0)
r4: wy.Tensor[Batch, In] = wy.where(vector > 0, x, 0.0)
r5: wy.Tensor[Batch, In] = wy.where(x > 0, x, vector)
r6: wy.Tensor[Batch, Heads, Time, Time] = wy.where(scores[0, 0] > 0, scores, -1e9)
r7: wy.Tensor[Batch, In] = wy.where(scale > 0, x, x2)
r8: wy.Tensor[Batch, In] = x + wy.where(x > 0, x, 0.0)
r9: wy.Tensor[Batch, In] = wy.where(x > 0, scale, 0.0)
#@ maximum_and_minimum
reveal_type(x.maximum(0.0))  # reveals: Maximum[Input[tuple[Batch, In]], Constant[Any], tuple[Batch, In]]
reveal_type(x.minimum(x2))  # reveals: Minimum[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Minimum[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.maximum(vector).minimum(scale))  # reveals: Minimum[Maximum[Any, Any, tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Minimum[Maximum[Any, Any, tuple[Batch, In]], Parameter[tuple[()]], tuple[Batch, In]]
#@ unary_methods
reveal_type(abs(x))  # reveals: Absolute[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.abs())  # reveals: Absolute[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.tanh())  # reveals: Tanh[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.exp().log())  # reveals: Log[Exp[Any, tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Batch, In] = x.sigmoid().relu().softplus().silu().sqrt().square().sign()
r2: wy.Tensor[Batch, In] = x.sin().cos().expm1().log1p().erf()
reveal_type(x.gelu())  # reveals: Gelu[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.gelu(approximate=True))  # reveals: GeluTanh[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.leaky_relu(0.1))  # reveals: LeakyRelu[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.elu())  # reveals: Elu[Input[tuple[Batch, In]], tuple[Batch, In]]
#@ methods_that_keep_the_shape
reveal_type(x.clip(0.0, 1.0))  # reveals: Clip[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.astype(np.float64))  # reveals: Cast[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.dropout(0.5))  # reveals: Dropout[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.stop_gradient())  # reveals: StopGradient[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.softmax())  # reveals: Softmax[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x.log_softmax(axis=0))  # reveals: LogSoftmax[Input[tuple[Batch, In]], tuple[Batch, In]]
#@ sibling_reuse
h = x @ w1 + b1
gate = h.sigmoid()
r: wy.Tensor[Batch, Hid] = h.tanh() * gate + h
#@ polynomial_of_any_axes
def polynomial(v: wy.Tensor[B, N]) -> wy.Tensor[B, N]:
    return 1.0 + v * (0.5 + v * (0.25 + v * 0.125))
reveal_type(polynomial(x))  # reveals: Node[Any, tuple[Batch, In]]
#@ standard_scores
reveal_type((x - x.mean(axis=0)) / x.std(axis=0))  # reveals: Divide[Subtract[Any, Any, tuple[Batch, In]], Std[Any, tuple[In]], tuple[Batch, In]]
#@ maximum_of_an_unknown_shape
r1: wy.Tensor[Batch, In] = x.maximum(unknown)
r2: wy.Tensor[Batch, In] = unknown.maximum(x)
#@ maximum_beside_a_product
reveal_type(x.maximum(x * 2.0))  # reveals: Maximum[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Maximum[Input[tuple[Batch, In]], Multiply[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
reveal_type(x < x * 2.0)  # reveals: Less[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Less[Input[tuple[Batch, In]], Multiply[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
reveal_type(wy.maximum(x, x * 0.1))  # reveals: Maximum[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Maximum[Input[tuple[Batch, In]], Multiply[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Batch, Out] = x.minimum(x2 + 1.0) @ w
r2: wy.Tensor[Batch, In] = vector.maximum(x * 0.5)
r3: wy.Tensor[Batch, In] = x.maximum(x.sum(axis=-1, keepdims=True) * 0.5)
#@ maximum_of_keepdims
sums = x.sum(axis=-1, keepdims=True)
reveal_type(sums.maximum(sums * 0.5))  # reveals: Maximum[Sum[Any, tuple[Batch, One]], Any, tuple[Batch, One]]  # with the plugin: Maximum[Sum[Any, tuple[Batch, One]], Multiply[Any, Any, tuple[Batch, One]], tuple[Batch, One]]
#@ row_against_a_wider_column
column = wy.Input(numbers(4, 1), dims=(batch, wy.One()))
reveal_type(vector.maximum(column))  # reveals: Maximum[Input[tuple[In]], Any, tuple[Batch, In]]  # with the plugin: Maximum[Input[tuple[In]], Input[tuple[Batch, One]], tuple[Batch, In]]
reveal_type(vector < column)  # reveals: Less[Input[tuple[In]], Any, tuple[Batch, In]]  # with the plugin: Less[Input[tuple[In]], Input[tuple[Batch, One]], tuple[Batch, In]]
#@ quotient_of_an_unknown_shape
products = wy.einsum("bi,bi->b", x, x2)
reveal_type(products / x.sum(axis=-1))  # reveals: Divide[Any, Any, Any]  # with the plugin: Divide[Einsum[Any, Any, tuple[Batch]], Sum[Any, tuple[Batch]], tuple[Batch]]
r1: wy.Tensor[Batch, Batch] = x.sum(axis=-1, keepdims=True) / products
r2: wy.Tensor[Time] = unknown.maximum(vector)
r3: wy.Tensor[Time] = vector.maximum(unknown)
r4: wy.Tensor[Time] = vector < unknown
#@ methods_nested_in_methods
h = x.maximum(x2.minimum(x.maximum(x2.minimum(x.maximum(x2.minimum(x.maximum(x2.minimum(x * 0.5))))))))
reveal_type(h)  # reveals: Maximum[Input[tuple[Batch, In]], Any, tuple[Batch, In]]  # with the plugin: Maximum[Input[tuple[Batch, In]], Minimum[Any, Any, tuple[Batch, In]], tuple[Batch, In]]
r: wy.Tensor[Batch, Out] = h @ w
