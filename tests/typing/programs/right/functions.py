# ruff: noqa
# fmt: off
#@ function_generic_in_the_shape
Sh = TypeVarTuple("Sh")
def quick_gelu(v: wy.Tensor[*Sh]) -> wy.Tensor[*Sh]:
    return v * (v * 1.702).sigmoid()
r1: wy.Tensor[Batch, In] = quick_gelu(x)
r2: wy.Tensor[Batch, Time, In] = quick_gelu(sequence)
r3: wy.Tensor[Out] = quick_gelu(b)
r4: wy.Tensor[Batch, In] = x + quick_gelu(x2)
#@ function_generic_in_one_axis
def double(v: wy.Tensor[B, In], u: wy.Parameter[tuple[In, N]]) -> wy.Tensor[B, N]:
    return v @ u * 2.0
r: wy.Tensor[Batch, Out] = double(x, w)
#@ recurrent_loop
def step(h: wy.Tensor[Batch, Hid], x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Hid]:
    return (x @ w1 + h @ wh + b1).tanh()
h: wy.Tensor[Batch, Hid] = h0
for now in [x, x2]:
    h = step(h, now)
    h = h * 0.5
#@ table_of_activations
activations: dict[str, Callable[[wy.Tensor[Batch, Hid]], wy.Tensor[Batch, Hid]]] = {
    "tanh": lambda v: v.tanh(), "relu": lambda v: v.relu(), "id": lambda v: v}
h = activations["tanh"](x @ w1)
r: wy.Tensor[Batch, Out] = h @ w2
#@ list_of_layers
layers: list[Callable[[wy.Tensor[Batch, Hid]], wy.Tensor[Batch, Hid]]] = [
    wy.nn.Linear(hid, hid), lambda v: v.tanh(), lambda v: v * 2.0]
h: wy.Tensor[Batch, Hid] = h0
for layer in layers:
    h = layer(h)
#@ conditional_expression
flag = bool(np.random.default_rng(0).random() > 0.5)
h = x.tanh() if flag else x.relu()
r1: wy.Tensor[Batch, Out] = h @ w
r2 = (x + x2) if flag else (x * x2)
r3 = r2 @ w + b
#@ list_of_one_kind
nodes = [x.tanh(), x.relu(), x]
r: wy.Tensor[Batch, Out] = nodes[0] @ w
total = nodes[0] + nodes[1] * nodes[2]
for node in nodes:
    node.sum().forward()
#@ comprehension_and_zip
outputs: list[wy.Tensor[Batch, Out]] = [v @ w + b for v in (x, x2)]
loss: wy.Tensor[()] = (outputs[0] - y).square().mean()
for output, target in zip(outputs, [y, y]):
    loss = loss + (output - target).square().mean()
loss.backward()
#@ optional_node
def masked(x: wy.Tensor[Batch, In], mask: wy.Tensor[Batch, In] | None = None) -> wy.Tensor[Batch, In]:
    h = x.tanh()
    return h * mask if mask is not None else h
masked(x)
masked(x, x2)
#@ chain_of_functions
X = TypeVar("X")
Y = TypeVar("Y")
Z = TypeVar("Z")
def chain(f: Callable[[X], Y], g: Callable[[Y], Z]) -> Callable[[X], Z]:
    return lambda x: g(f(x))
def act(v: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Hid]:
    return v.tanh()
def project(v: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Out]:
    return v @ w2
r: wy.Tensor[Batch, Out] = chain(act, project)(h0)
both: Callable[[wy.Tensor[Batch, In]], wy.Tensor[Batch, Out]] = chain(wy.nn.Linear(in_, hid), project)
#@ op_of_ones_own
L = TypeVar("L", bound=wy.Node, covariant=True, default=Any)
S = TypeVar("S", default=Any)
class Swish(wy.Unary[L, S], Generic[L, S]):
    __slots__ = ()
    formula = "x / (1.0 + exp(-x))"
    _own: Swish[Any, S]
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)
    def extra(self) -> int:
        return 1
s = Swish(x @ w)
reveal_type(s)  # reveals: Swish[MatMul[Any, Any, tuple[Batch, Out]], tuple[Batch, Out]]
r: wy.Tensor[Batch, Out] = s + b
reveal_type(s + b)  # reveals: Add[Swish[Any, tuple[Batch, Out]], Parameter[tuple[Out]], tuple[Batch, Out]]
n: int = s.extra()
#@ untyped_op_of_ones_own
class Cube(wy.Unary):
    __slots__ = ()
    formula = "x * x * x"
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0 * self.parents[0].square(),)
cube = Cube(x)
r: wy.Tensor[Batch, Out] = cube @ w
cube.sum().forward()
#@ narrowing_by_class
from wyrm.ops.elementwise.arithmetic import Add
def leaves(node: wy.Node) -> int:
    if isinstance(node, (wy.Parameter, wy.Input)):
        return 1
    if isinstance(node, Add):
        left, right = node.parents
        return leaves(left) + leaves(right)
    return sum(leaves(parent) for parent in node.parents)
leaves(x @ w + b)
#@ nodes_as_keys
names: dict[wy.Node[Any, Any], str] = {x: "x", w: "w"}
assert names[x] == "x" and x is not x2
#@ erased
h = (x @ w1).erase()
reveal_type(h)  # reveals: Node[Any, tuple[Batch, Hid]]
r: wy.Tensor[Batch, Out] = h @ w2
#@ elementwise_functions
r1: wy.Tensor[Batch, In] = wy.arctan2(x, vector)
r2: wy.Tensor[Batch, In] = wy.special.xlogy(x, wy.special.gammaln(x2))
r3: wy.Tensor[Batch, In] = wy.where(wy.isnan(x) ^ (x > 0), wy.floor(x), x % 2.0)
r4: wy.Tensor[Batch, In] = wy.nan_to_num(wy.sinc(x)) // x2
r5: wy.Tensor[Batch, In] = x.round(2).clip(vector.min(), 1.0)
#@ attention_over_any_leading_axes
Bs = TypeVarTuple("Bs")
def attend(q: wy.Tensor[*Bs, M, D], k: wy.Tensor[*Bs, N, D], v: wy.Tensor[*Bs, N, H]) -> wy.Tensor[*Bs, M, H]:
    return (q @ k.mT * 0.125).softmax() @ v
q = wy.Input(dims=(batch, heads, time, key))
k = wy.Input(dims=(batch, heads, source, key))
v = wy.Input(dims=(batch, heads, source, emb))
reveal_type(attend(q, k, v))  # reveals: Node[Any, tuple[Batch, Heads, Time, Emb]]
reveal_type(attend(sequence, sequence, sequence))  # reveals: Node[Any, tuple[Batch, Time, In]]
#@ function_over_any_leading_axes
Bs = TypeVarTuple("Bs")
def project(v: wy.Tensor[*Bs, In]) -> wy.Tensor[*Bs, Out]:
    return v @ w
reveal_type(project(x))  # reveals: Node[Any, tuple[Batch, Out]]
reveal_type(project(vector))  # reveals: Node[Any, tuple[Out]]
reveal_type(project(sequence))  # reveals: Node[Any, tuple[Batch, Time, Out]]
