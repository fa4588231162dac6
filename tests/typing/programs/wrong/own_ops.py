# ruff: noqa
# fmt: off
#@ own_unary_op_of_a_number
class Cubed(wy.Unary):
    formula = "x * x * x"
Cubed(2.0)  # error: [arg-type] Argument 1 to "Cubed" has incompatible type "float"; expected "Shaped[Any, Any]"
#@ own_unary_op_of_indices
class Cubed(wy.Unary):
    formula = "x * x * x"
Cubed(tokens)  # error: [arg-type] Argument 1 to "Cubed" has incompatible type "IndexInput[tuple[Batch, Time]]"; expected "Shaped[Any, Any]"
#@ own_unary_op_of_two
class Cubed(wy.Unary):
    formula = "x * x * x"
Cubed(x, x2)  # error: [call-arg] Too many arguments for "Cubed"
#@ own_unary_op_of_an_array
class Cubed(wy.Unary):
    formula = "x * x * x"
Cubed(array)  # error: [arg-type] Argument 1 to "Cubed" has incompatible type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]"; expected "Shaped[Any, Any]"
#@ own_formula_that_is_a_function
class Cubed(wy.Unary):
    formula = lambda x: x * x * x  # error: [assignment] Incompatible types in assignment (expression has type "Callable[[], Any]", base class "Op" defined the type as "str")
#@ own_op_in_a_product_of_other_axes
Of = TypeVar("Of", bound=wy.Node, covariant=True, default=Any)
Shape = TypeVar("Shape", default=Any)
class Cubed(wy.Unary[Of, Shape], Generic[Of, Shape]):
    formula = "x * x * x"
Cubed(x) @ w2  # error: [operator] Unsupported operand types for @ ("Cubed[Input[tuple[Batch, In]], tuple[Batch, In]]" and "Parameter[tuple[Hid, Out]]")
#@ own_op_plus_other_axes
Of = TypeVar("Of", bound=wy.Node, covariant=True, default=Any)
Shape = TypeVar("Shape", default=Any)
class Cubed(wy.Unary[Of, Shape], Generic[Of, Shape]):
    formula = "x * x * x"
Cubed(x) + y  # error: [operator] Unsupported operand types for + ("Cubed[Input[tuple[Batch, In]], tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ own_op_result_of_other_axes
Of = TypeVar("Of", bound=wy.Node, covariant=True, default=Any)
Shape = TypeVar("Shape", default=Any)
class Cubed(wy.Unary[Of, Shape], Generic[Of, Shape]):
    formula = "x * x * x"
r: wy.Tensor[Batch, Out] = Cubed(x)  # error: [arg-type] Argument 1 to "Cubed" has incompatible type "Input[tuple[Batch, In]]"; expected "Shaped[Any, tuple[Batch, Out]]"
#@ own_op_whose_shape_is_a_list
class Flat(wy.Node):
    def shape_rule(self) -> list[int]:  # error: [override] Return type "list[int]" of "shape_rule" incompatible with return type "tuple[Dim | int, ...]" in supertype "wyrm.graph.op.Op"
        return [1]
#@ own_op_whose_gradient_is_an_array
class Flat(wy.Node):
    def vjp(self, gradient: wy.Node) -> NDArray[np.float32]:  # error: [override] Return type "ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]" of "vjp" incompatible with return type "tuple[BaseNode[Any, Any] | Zero | Undefined,
        return np.zeros(3, np.float32)
#@ own_op_whose_dtype_is_a_text
class Flat(wy.Node):
    def dtype_rule(self) -> str:  # error: [override] Return type "str" of "dtype_rule" incompatible with return type "dtype[Any]" in supertype "wyrm.graph.op.Op"
        return "float32"
#@ own_op_without_a_namespace
class Flat(wy.Node):
    def evaluate(self) -> Any:  # error: [override] Signature of "evaluate" incompatible with supertype "wyrm.graph.op.Op"
        return None
#@ own_binary_op_of_one
class Gap(wy.Binary):
    formula = "x - y"
Gap(x)  # error: [call-overload] No overload variant of "Gap" matches argument type "Input[tuple[Batch, In]]"
#@ own_binary_op_of_a_text
class Gap(wy.Binary):
    formula = "x - y"
Gap(x, "y")  # error: [call-overload] No overload variant of "Gap" matches argument types "Input[tuple[Batch, In]]", "str"
#@ own_op_by_an_attribute_that_it_lacks
class Cubed(wy.Unary):
    formula = "x * x * x"
Cubed(x).exponent  # error: [attr-defined] "Cubed" has no attribute "exponent"
