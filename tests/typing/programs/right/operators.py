# ruff: noqa
# fmt: off
#@ column_and_row
column = wy.Input(numbers(11, 1), dims=(hid, wy.One()))
reveal_type(column - vector)  # reveals: Subtract[Input[tuple[Hid, One]], Input[tuple[In]], tuple[Hid, In]]
reveal_type(vector - column)  # reveals: Subtract[Input[tuple[In]], Input[tuple[Hid, One]], tuple[Hid, In]]
row = wy.Input(numbers(1, 7), dims=(wy.One(), in_))
reveal_type(column * row)  # reveals: Multiply[Input[tuple[Hid, One]], Input[tuple[One, In]], tuple[Hid, In]]
reveal_type(row * column)  # reveals: Multiply[Input[tuple[One, In]], Input[tuple[Hid, One]], tuple[Hid, In]]
reveal_type(column < vector)  # reveals: Less[Input[tuple[Hid, One]], Any, tuple[Hid, In]]  # with the plugin: Less[Input[tuple[Hid, One]], Input[tuple[In]], tuple[Hid, In]]
reveal_type(column.maximum(row))  # reveals: Maximum[Input[tuple[Hid, One]], Any, tuple[Hid, In]]  # with the plugin: Maximum[Input[tuple[Hid, One]], Input[tuple[One, In]], tuple[Hid, In]]
#@ row_on_either_side
row = wy.Input(numbers(1, 7), dims=(wy.One(), in_))
reveal_type(x + row)  # reveals: Add[Input[tuple[Batch, In]], Input[tuple[One, In]], tuple[Batch, In]]
reveal_type(row + x)  # reveals: Add[Input[tuple[One, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(sequence / row)  # reveals: Divide[Input[tuple[Batch, Time, In]], Input[tuple[One, In]], tuple[Batch, Time, In]]
reveal_type(row + vector)  # reveals: Add[Input[tuple[One, In]], Input[tuple[In]], tuple[One, In]]
#@ pairs_of_rows
one = wy.One()
left = wy.Input(numbers(4, 1, 7), dims=(batch, one, in_))
right = wy.Input(numbers(3, 7), dims=(out, in_))
r1: wy.Tensor[Batch, Out, In] = left - right
r2: wy.Tensor[Batch, Out, In] = right - left
#@ numbers_as_axes
two = wy.Input(dims=(32, 7))
r1: wy.Tensor[Batch, In] = two + two
r2: wy.Tensor[Batch, In] = two * 2.0 - 1
r3: wy.Tensor[Batch, In] = two + wy.Input(dims=(7,))
r4: wy.Tensor[Batch, In] = wy.Input(dims=(7,)) + two
r5: wy.Tensor[Batch, In] = two + wy.Input(dims=(32, 1))
r6: wy.Tensor[Batch, In] = two / scale
r7: wy.Tensor[Batch, Out] = two @ wy.Input(dims=(7, 3))
r8: wy.Tensor[Batch] = two @ wy.Input(dims=(7,))
#@ operators_in_the_right_operand
r1: wy.Tensor[Batch, In] = scale + x * (scale + x * (scale + x * (scale + x * (scale + x * (scale + x * (scale + x))))))
r2: wy.Tensor[Batch, In] = x - (vector - (x - (vector - (x - (vector - (x - (vector - (x - vector))))))))
r3: wy.Tensor[Batch, In] = x > (x2 + (vector + (x2 + (vector + (x2 + (vector + (x2 + (vector + x2))))))))
square = wy.Parameter.zeros((in_, in_))
r4: wy.Tensor[Batch, In] = x @ (square @ (square.T @ (square @ (square.T @ (square @ (square.T @ square))))))
mask = x > 0.5
r5: wy.Tensor[Batch, In] = mask & (~mask | (mask & (~mask | (mask & (~mask | (mask & (~mask | mask)))))))
#@ products_of_one_type
reveal_type(wh @ wh)  # reveals: MatMul[Parameter[tuple[Hid, Hid]], Parameter[tuple[Hid, Hid]], tuple[Hid, Hid]]
reveal_type(vector @ vector)  # reveals: MatMul[Input[tuple[In]], Input[tuple[In]], tuple[()]]
reveal_type(scores @ scores)  # reveals: MatMul[Input[tuple[Batch, Heads, Time, Time]], Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Heads, Time, Time]]
h = h0 @ wh
reveal_type(h + h)  # reveals: Add[MatMul[Any, Any, tuple[Batch, Hid]], MatMul[Any, Any, tuple[Batch, Hid]], tuple[Batch, Hid]]
#@ binary_op_of_ones_own
L = TypeVar("L", bound=wy.Node, covariant=True, default=Any)
R = TypeVar("R", bound=wy.Node, covariant=True, default=Any)
S = TypeVar("S", default=Any)
class Hypot(wy.Binary[L, R, S], Generic[L, R, S]):
    __slots__ = ()
    formula = "sqrt(x * x + y * y)"
    _own: Hypot[Any, Any, S]
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x, y = self.parents
        return gradient * x / self, gradient * y / self
reveal_type(Hypot(x, x2))  # reveals: Hypot[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(Hypot(x, scale))  # reveals: Hypot[Input[tuple[Batch, In]], Parameter[tuple[()]], tuple[Batch, In]]
reveal_type(Hypot(scale, x))  # reveals: Hypot[Parameter[tuple[()]], Input[tuple[Batch, In]], tuple[Batch, In]]
r1: wy.Tensor[Batch, In] = Hypot(x, vector)
r2: wy.Tensor[Batch, Out] = Hypot(x, unknown) @ w
#@ untyped_binary_op_of_ones_own
class Hypot(wy.Binary):
    __slots__ = ()
    formula = "sqrt(x * x + y * y)"
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x, y = self.parents
        return gradient * x / self, gradient * y / self
hypot = Hypot(x, vector)
r1: wy.Tensor[Batch, Out] = hypot @ w
r2: Hypot = hypot
hypot.sum().forward()
