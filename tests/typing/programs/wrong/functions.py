# ruff: noqa
# fmt: off
#@ shapes_that_must_agree
Sh = TypeVarTuple("Sh")
def both(v: wy.Tensor[*Sh], u: wy.Tensor[*Sh]) -> wy.Tensor[*Sh]:
    return v
both(x, y)  # error: [misc] Cannot infer value of type parameter "Sh" of "both"
#@ operand_from_a_generic_function
Sh = TypeVarTuple("Sh")
def act(v: wy.Tensor[*Sh]) -> wy.Tensor[*Sh]:
    return v.tanh()
x + act(y)  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Node[Any, tuple[Batch, Out]]")
#@ wrong_result_of_a_function
def f(x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Hid]:
    return x @ w  # error: [return-value] Incompatible return value type (got "MatMul[Any, Parameter[tuple[In, Out]], tuple[Batch, Out]]", expected "Node[Any, tuple[Batch, Hid]]")
#@ optional_not_checked
def f(mask: wy.Tensor[Batch, In] | None) -> wy.Tensor[Batch, In]:
    return x * mask  # error: [operator] No overload variant of "__mul__" of "Node" matches argument type "None"
#@ loop_that_changes_the_shape
h: wy.Tensor[Batch, In] = x
for weights in (w1, w1):
    h = h @ weights  # error: [assignment] Incompatible types in assignment (expression has type "MatMul[Any, Parameter[tuple[In, Hid]], tuple[Batch, Hid]]", variable has type "Node[Any, tuple[Batch, In]]")
#@ parents_out_of_range
x.tanh().parents[1]  # error: [misc] Tuple index out of range
#@ parents_of_a_leaf
x.parents[0]  # error: [misc] Tuple index out of range
#@ attribute_of_the_wrong_parent
(x @ w + b).parents[0].gradient  # error: [attr-defined] "MatMul[Any, Any, tuple[Batch, Out]]" has no attribute "gradient"
#@ parent_of_the_wrong_class
p: wy.Parameter = (x @ w + b).parents[0]  # error: [assignment] Incompatible types in assignment (expression has type "MatMul[Any, Any, tuple[Batch, Out]]", variable has type "Parameter[Any]")
#@ unpacked_parents
left, right = x.tanh().parents  # error: [misc] Need more than 1 value to unpack (2 expected)
#@ chain_that_does_not_fit
X = TypeVar("X")
Y = TypeVar("Y")
Z = TypeVar("Z")
def chain(f: Callable[[X], Y], g: Callable[[Y], Z]) -> Callable[[X], Z]:
    return lambda x: g(f(x))
def act(v: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Hid]:
    return v.tanh()
def project(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
    return v @ w
chain(act, project)  # error: [misc] Cannot infer value of type parameter "Y" of "chain"
#@ op_of_ones_own_of_other_shape
class Cube(wy.Unary[wy.Node, tuple[Batch, In]]):
    __slots__ = ()
    formula = "x * x * x"
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)
Cube(x) @ w2  # error: [operator] Unsupported operand types for @ ("Cube" and "Parameter[tuple[Hid, Out]]")
#@ code_after_a_truth_value_is_checked
def f() -> None:
    if x.sum() > 0:
        pass
    x + y  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ code_after_a_membership_test_is_checked
def f() -> None:
    found = 1.0 in x.value
    x + y  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, Out]]")
#@ attention_over_any_leading_axes_without_a_transpose
Bs = TypeVarTuple("Bs")
def attend(q: wy.Tensor[*Bs, M, D], k: wy.Tensor[*Bs, N, D]) -> wy.Node:
    return q @ k  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[*Bs, M, D]]" and "Node[Any, tuple[*Bs, N, D]]")
#@ attention_over_any_leading_axes_of_other_values
Bs = TypeVarTuple("Bs")
def attend(q: wy.Tensor[*Bs, M, D], k: wy.Tensor[*Bs, N, D], v: wy.Tensor[*Bs, N, H]) -> wy.Tensor[*Bs, M, H]:
    return (q @ k.mT * 0.125).softmax() @ v
attend(sequence, sequence, wy.Input(dims=(batch, source, emb)))  # error: [misc] Cannot infer value of type parameter "N" of "attend"
#@ projection_of_other_axes_over_any_leading_ones
Bs = TypeVarTuple("Bs")
def project(v: wy.Tensor[*Bs, In]) -> wy.Node:
    return v @ w2  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[*Bs, In]]" and "Parameter[tuple[Hid, Out]]")
#@ projection_that_promises_other_axes
Bs = TypeVarTuple("Bs")
def project(v: wy.Tensor[*Bs, In]) -> wy.Tensor[*Bs, Hid]:
    return v @ w  # error: [return-value] Incompatible return value type (got "MatMul[Any, Parameter[tuple[In, Out]], tuple[*Bs, Out]]", expected "Node[Any, tuple[*Bs, Hid]]")
#@ projection_over_any_leading_axes_of_a_vector
Bs = TypeVarTuple("Bs")
def project(v: wy.Tensor[*Bs, In]) -> wy.Tensor[*Bs, Out]:
    return v @ w
project(y)  # error: [arg-type] Argument 1 to "project" has incompatible type "Input[tuple[Batch, Out]]"; expected "Node[Any, tuple[Batch, In]]"
