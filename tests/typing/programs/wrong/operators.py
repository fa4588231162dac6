# ruff: noqa
# fmt: off
#@ column_and_row_of_other_axes
column = wy.Input(dims=(hid, wy.One()))
r: wy.Tensor[Out, In] = column - vector  # error: [operator] Unsupported operand types for - ("Input[tuple[Hid, One]]" and "Input[tuple[In]]")
#@ row_of_other_axes
row = wy.Input(dims=(wy.One(), out))
x + row  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Input[tuple[One, Out]]")
#@ numbers_as_axes_of_other_rank
two = wy.Input(dims=(32, 7))
r1: wy.Tensor[Batch, Time, In] = two + 1  # error: [assignment] Incompatible types in assignment (expression has type "Add[Input[tuple[Any, Any]], Constant[Any], tuple[Any, Any]]", variable has type "Node[Any, tuple[Batch, Time, In]]")
r2: wy.Tensor[Batch, Time, In] = two + two  # error: [assignment] Incompatible types in assignment
r3: wy.Tensor[Batch, Time, In] = two + wy.Input(dims=(7,))  # error: [assignment] Incompatible types in assignment
r4: wy.Tensor[Batch, Time, In] = two * scale  # error: [operator] Unsupported operand types for * ("Input[tuple[Any, Any]]" and "Parameter[tuple[()]]")
r5: wy.Tensor[Batch, Time, In] = scale * two  # error: [assignment] Incompatible types in assignment
r6: wy.Tensor[Batch, Time, In] = vector - two  # error: [assignment] Incompatible types in assignment
r7: wy.Tensor[Batch, Time, In] = two @ w  # error: [assignment] Incompatible types in assignment
#@ nested_operand_of_other_axes
x + (x2 * (scale - (x2 + y)))  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ product_of_a_rectangle_with_itself
w @ w  # error: [operator] Unsupported operand types for @ ("Parameter[tuple[In, Out]]" and "Parameter[tuple[In, Out]]")
#@ added_words
x + "two"  # error: [operator] No overload variant of "__add__" of "Node" matches argument type "str"
#@ binary_op_of_ones_own_on_other_things
class Hypot(wy.Binary):
    __slots__ = ()
    formula = "sqrt(x * x + y * y)"
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return gradient, gradient
Hypot(x, 2.0)  # error: [call-overload] No overload variant of "Hypot" matches argument types "Input[tuple[Batch, In]]", "float"
Hypot(x, labels)  # error: [call-overload] No overload variant of "Hypot" matches argument types "Input[tuple[Batch, In]]", "IndexInput[tuple[Batch]]"
Hypot(x)  # error: [call-overload] No overload variant of "Hypot" matches argument type "Input[tuple[Batch, In]]"
#@ binary_op_of_ones_own_of_other_shape
L = TypeVar("L", bound=wy.Node, covariant=True, default=Any)
R = TypeVar("R", bound=wy.Node, covariant=True, default=Any)
S = TypeVar("S", default=Any)
class Hypot(wy.Binary[L, R, S], Generic[L, R, S]):
    __slots__ = ()
    formula = "sqrt(x * x + y * y)"
    _own: Hypot[Any, Any, S]
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return gradient, gradient
hypot = Hypot(x, x2)
hypot @ w2  # error: [operator] Unsupported operand types for @ ("Hypot[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]" and "Parameter[tuple[Hid, Out]]")
r: wy.Tensor[Batch, Out] = hypot  # error: [assignment] Incompatible types in assignment (expression has type "Hypot[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]", variable has type "Node[Any, tuple[Batch, Out]]")
