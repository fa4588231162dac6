# ruff: noqa
# fmt: off
#@ own_op_names_its_operands
class Softcap(wy.Node[tuple[wy.Node], Any]):
    __slots__ = ("cap",)
    cap: float
    def __init__(self, x: wy.Node, cap: float) -> None:
        self._construct((x,), cap=cap)
    def shape_rule(self) -> tuple[Any, ...]:
        dims: tuple[Any, ...] = self.parents[0].dims
        return dims
    def dtype_rule(self) -> np.dtype[Any]:
        return self.parents[0].dtype
    def evaluate(self, xp: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
        return xp.tanh(x / self.cap) * self.cap
    def vjp(self, gradient: wy.Node) -> tuple[wy.Node]:
        return (gradient * (1.0 - (self / self.cap).square()),)
capped = Softcap(x, 30.0)
cap: float = capped.cap
r: wy.Tensor[Batch, Out] = capped @ w
capped.sum().forward()
#@ own_op_of_two_named_operands
class Weighted(wy.Node[tuple[wy.Node, wy.Node], Any]):
    __slots__ = ()
    def __init__(self, x: wy.Node, weight: wy.Node) -> None:
        self._construct((x, weight))
    def shape_rule(self) -> tuple[Any, ...]:
        dims: tuple[Any, ...] = self.parents[0].dims
        return dims
    def dtype_rule(self) -> np.dtype[Any]:
        return self.parents[0].dtype
    def evaluate(self, xp: Any, x: Any, weight: Any, *, shape: tuple[int, ...]) -> Any:
        return x * weight
    def vjp(self, gradient: wy.Node) -> tuple[wy.Node, wy.Node]:
        first, second = self.parents
        return gradient * second, gradient * first
Weighted(x, x2).sum().forward()
#@ own_unary_op_with_its_axes
Of = TypeVar("Of", bound=wy.Node, covariant=True, default=Any)
Shape = TypeVar("Shape", default=Any)
class Cubed(wy.Unary[Of, Shape], Generic[Of, Shape]):
    __slots__ = ()
    formula = "x * x * x"
reveal_type(Cubed(x))  # reveals: Cubed[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(Cubed(x) @ w)  # reveals: MatMul[Cubed[Input[tuple[Batch, In]], tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]  # with the plugin: MatMul[Cubed[Any, tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]
r: wy.Tensor[Batch, Time, In] = Cubed(sequence) + vector
reveal_type(Cubed(unknown))  # reveals: Cubed[Node[Any, Any], Any]
#@ own_unary_op_with_an_attribute
Of = TypeVar("Of", bound=wy.Node, covariant=True, default=Any)
Shape = TypeVar("Shape", default=Any)
class Scaled(wy.Unary[Of, Shape], Generic[Of, Shape]):
    __slots__ = ("beta",)
    beta: float
    formula = "x * beta"
scaled = Scaled(x, beta=2.0)
beta: float = scaled.beta
r: wy.Tensor[Batch, Out] = scaled @ w
#@ own_binary_op_with_its_axes
First = TypeVar("First", bound=wy.Node, covariant=True, default=Any)
Second = TypeVar("Second", bound=wy.Node, covariant=True, default=Any)
Shape = TypeVar("Shape", default=Any)
class Gap(wy.Binary[First, Second, Shape], Generic[First, Second, Shape]):
    __slots__ = ()
    formula = "(x - y) * (x - y)"
reveal_type(Gap(x, x2))  # reveals: Gap[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
r: wy.Tensor[Batch] = Gap(x, x2).mean(axis=-1)
#@ own_op_without_type_parameters_stays_itself
class Fourth(wy.Unary):
    __slots__ = ()
    formula = "x * x * x * x"
def fourth(x: wy.Node) -> Fourth:
    return Fourth(x)
fourth(x).sum().forward()
