# What a checker cannot do, each in a few lines. `refused by` names those that raise an error on a line that is right,
# `accepted by` those that raise none on one that is wrong; mypy judges each line as it is.

#@ methods_of_the_base_class
# Basic pyright does not compare a method with that of the base class.
class Base:
    def rule(self) -> int:
        return 1
class Derived(Base):
    def rule(self) -> str:  # accepted by: pyright
        return ""

#@ declared_type
# A variable is taken for what it is given, not for what it is declared as.
T = TypeVar("T")
class Box(Generic[T]):
    value: T
class Leaf(Box[T]): ...
def of_text(box: Box[str]) -> None: ...
def assigned(leaf: Leaf[int]) -> None:
    box: Box[Any] = leaf
    of_text(box)  # refused by: pyright, ty
def in_a_loop(leaf: Leaf[int], box: Box[Any]) -> None:
    for _ in range(2):
        of_text(box)  # refused by: ty, pyrefly
        box = leaf

#@ undeclared_variable
# A variable without a declaration takes any type.
value = 1
value = ""  # accepted by: pyright, ty, pyrefly

#@ behind_an_unknown_number
# The type behind an unknown number of others is not compared.
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
class Box(Generic[T]):
    value: T
def pair(left: Box[tuple[*Ts, T]], right: Box[tuple[T]]) -> None: ...
def f(left: Box[tuple[*tuple[Any, ...], int]], right: Box[tuple[str]]) -> None:
    pair(left, right)  # accepted by: pyright

#@ overload_for_a_part_of_type_any
# No overload is chosen for a type of which a part is Any, not even what all results have in common.
T = TypeVar("T")
class Mark: ...
class Box(Generic[T]):
    value: T
    @overload
    def get(self: Box[tuple[int, Mark]]) -> tuple[int, Any]: ...
    @overload
    def get(self: Box[tuple[int, int]]) -> tuple[int, str]: ...
    def get(self) -> Any: ...
def f(box: Box[tuple[int, Any]]) -> None:
    box.get()[0].missing  # accepted by: pyright, pyright --strict

#@ descriptor_of_another_type
# An attribute is taken for its descriptor where that is of another type than `__get__` takes.
T = TypeVar("T")
class Product(Generic[T]):
    def __get__(self: Product[tuple[int, int]], node: object, owner: object) -> int: ...
class Node(Generic[T]):
    product: Product[T] = Product()
def f(node: Node[tuple[int]]) -> None:
    node.product  # accepted by: pyright, pyright --strict

#@ generic_type_without_arguments
# mypy: allow-any-generics
# A generic type needs its arguments; mypy has an option for it.
Ts = TypeVarTuple("Ts")
class Shape(Generic[*Ts]): ...
def f(shape: Shape) -> None: ...  # refused by: pyright --strict, pyrefly

#@ narrower_attribute
# The attribute of a subclass has exactly the type that the base class declares, with Self too.
T = TypeVar("T", default=Any)
class Base:
    own: Self
class Derived(Base, Generic[T]):
    own: Derived[Any]  # refused by: pyright --strict

#@ parameters_of_a_lambda
# The types of a lambda's parameters are to be known from the parameter that it is passed for, which may be of any kind.
P = ParamSpec("P")
T = TypeVar("T")
def run(function: Callable[..., object], *arguments: object) -> None: ...
def decorated(function: Callable[P, T]) -> Callable[P, T]:
    return function
run(lambda x: x, 1)  # refused by: pyright --strict
decorated(lambda x: x)  # refused by: pyright --strict

#@ lambda_before_its_argument
# The types of a lambda's parameters are not inferred from an argument that follows, if that is of a subclass.
T = TypeVar("T")
First = TypeVar("First")
def loop(function: Callable[[wy.Node[Any, T]], wy.Node[Any, T]], init: Shaped[wy.Node[Any, T], First]) -> None: ...
loop(lambda v: v.tanh(), x.erase())
loop(lambda v: v.tanh(), x)  # refused by: pyright --strict

#@ arguments_of_a_tested_class
# The type arguments of a class that `isinstance` tests are unknown, though they have defaults.
T = TypeVar("T", default=Any)
class Base: ...
class Box(Base, Generic[T]):
    value: T
def f(x: Base) -> None:
    if isinstance(x, Box):
        value = x.value  # refused by: pyright --strict

#@ result_of_any
# A result that an argument of type Any leaves open may not be used.
@overload
def f(x: int) -> int: ...
@overload
def f(x: str) -> str: ...
def f(x: Any) -> Any: ...
def g(x: Any) -> None:
    result: float = f(x)  # refused by: pyright --strict

#@ type_variable_or_what_holds_it
# A type variable is not inferred from an argument whose type is a type variable, beside a protocol of it.
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")
class Holds(Protocol[T_co]):
    def get(self) -> T_co: ...
class Box(Generic[T]):
    value: T
    def __init__(self: Box[V], value: V | Holds[V]) -> None: ...
def f(x: T) -> T:
    return Box(x).value  # refused by: ty

#@ reflected_operator
# A type variable of both operands joins their classes, where the reflected operator would take them as they are.
L = TypeVar("L")
R = TypeVar("R")
Own_co = TypeVar("Own_co", covariant=True)
class Pair(Generic[L, R]): ...
class Owned(Protocol[Own_co]):
    @property
    def own(self) -> Own_co: ...
class Base:
    own: Self
    def __add__(self: Owned[L], other: Owned[L]) -> Pair[L, L]: ...
    def __radd__(self: Owned[R], other: Owned[L]) -> Pair[L, R]: ...
class Left(Base): ...
class Right(Base): ...
def f(left: Left, right: Right) -> Pair[Left, Right]:
    return left + right  # refused by: ty, pyrefly

#@ generic_call_as_a_function
# An object whose `__call__` has a variable number of type variables is no function.
Ts = TypeVarTuple("Ts")
class Shape(Generic[*Ts]): ...
class Layer:
    def __call__(self, x: Shape[*Ts, int]) -> Shape[*Ts, str]: ...
function: Callable[[Shape[bool, int]], Shape[bool, str]] = Layer()  # refused by: ty

#@ alias_of_a_variable_number
# A type variable in an alias differs from itself.
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
class Box(Generic[T]):
    value: T
Tensor = Box[tuple[*Ts]]
def f(x: Tensor[*Ts]) -> Tensor[*Ts]:
    return x  # refused by: pyrefly

#@ names_in_place_of_any_arguments
# A method may not name arguments where that of the base class takes any, though the standard lets it.
class Base:
    def evaluate(self, xp: Any, *operands: Any, **options: Any) -> Any: ...
class Derived(Base):
    def evaluate(self, xp: Any, x: Any, *, shape: int) -> Any: ...  # refused by: pyrefly

#@ parameters_of_any_number_before_another
# A callable's last parameter is not told from those before it, of any number.
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
Us = TypeVarTuple("Us")
class Last(Generic[*Us]): ...
@overload
def without_last(function: Callable[[*Ts, Last[*Us]], float]) -> Callable[[*Ts], Last[*Us]]: ...
@overload
def without_last(function: Callable[P, float]) -> Callable[P, float]: ...
def without_last(function: Any) -> Any:
    return function
def measured(x: int, last: Last[int]) -> float:
    return 0.0
without_last(measured)(1)  # refused by: ty
