# ruff: noqa
# fmt: off
#@ function_of_arrays
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
value: NDArray[np.floating[Any]] = energy(numbers(7))
rounded = energy(numbers(7).astype(np.float64)).round(3).tolist()
gradient = energy.grad()(numbers(7))
pair, slope = energy.value_and_grad()(numbers(7))
#@ function_of_nodes_stays_a_node
@wy.function
def energy(g: wy.Tensor[In]) -> wy.Tensor[()]:
    return (g * g).sum()
reveal_type(energy(vector))  # reveals: Node[Any, tuple[()]]
wy.grad(energy(vector), vector).sum().forward()
#@ function_of_a_dict
@wy.function
def energy(weights: Any, x: Any, *, power: int = 2) -> Any:
    return ((x @ weights["matrix"]).tanh() ** power).sum() * weights["scale"]
weights = {"matrix": np.eye(7, dtype=np.float32), "scale": 0.5}
energy(weights, numbers(4, 7))
energy(weights, numbers(4, 7), power=3)
value, gradient = energy.value_and_grad()(weights, numbers(4, 7))
curvature = wy.hessian(energy, wrt=1)(weights, numbers(2, 7))
each = wy.vmap(energy.grad(wrt=1), in_axes=(None, 0))(weights, numbers(5, 4, 7))
#@ function_of_a_module
@wy.function(engine="native")
def predict(model: wy.nn.Linear[In, Out], rows: wy.Tensor[Batch, In]) -> tuple[wy.Tensor[Batch, Out], wy.Tensor[()]]:
    return model(rows), rows.sum()
predicted, total = predict(wy.nn.Linear(in_, out), array)
ranked = predicted.argsort(axis=-1) + total.astype(np.int64)
#@ function_of_a_lambda
square = wy.function(lambda x: x * x)
square.grad().grad()(3.0)
#@ products_with_jacobians
value, pullback = wy.vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
gradients = pullback(np.array([1.0, 10.0]))
value, change = wy.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
jacobian = wy.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
#@ scan_of_a_cell
rows = wy.Constant(numbers(5, 4, 7), dims=(time, batch, in_))
def step(h: wy.Tensor[Batch, Hid], row: wy.Tensor[Batch, In]) -> tuple[wy.Tensor[Batch, Hid], wy.Tensor[Batch]]:
    h = (h @ wh + row @ w1).tanh()
    return h, h.sum(axis=-1)
last, sums = wy.scan(step, h0, rows)
reveal_type(last)  # reveals: Node[Any, tuple[Batch, Hid]]
reveal_type(sums)  # reveals: Node[Any, tuple[Time, Batch]]
loss: wy.Tensor[()] = sums.mean() + last.square().sum()
#@ scan_of_a_lambda
start = wy.Constant(np.zeros(7), dims=(in_,), dtype=np.float32)
total, doubled = wy.scan(lambda carry, row: (carry + row, row * 2.0), start, x)
reveal_type(total)  # reveals: Node[Any, tuple[In]]
reveal_type(doubled)  # reveals: Node[Any, tuple[Batch, In]]
#@ scan_without_results
total, nothing = wy.scan(lambda carry, row: (carry + row.sum(axis=-1).sum(), None), wy.Constant(0.0), sequence)
r: wy.Tensor[()] = total
#@ scan_of_pairs
def step(state: Any, row: Any) -> tuple[Any, Any]:
    h, count = state
    return (h + row, count + 1.0), h
(h, count), sums = wy.scan(step, (np.zeros(7, np.float32), 0.0), numbers(4, 7))
wy.scan(step, (x[0], wy.Constant(0.0)), x2)
#@ scan_of_a_number_of_steps
last, steps = wy.scan(lambda carry, _: (carry * 2.0, carry), scale, length=5)
r: wy.Tensor[()] = last
#@ while_loop
doubled = wy.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, wy.Constant(3.0), max_steps=20)
reveal_type(doubled)  # reveals: Node[Any, tuple[()]]
r: wy.Tensor[Batch, In] = wy.while_loop(lambda v: v.sum() < 100.0, lambda v: v * 2.0, x, max_steps=20)
#@ while_loop_of_a_pair
value, count = wy.while_loop(
    lambda state: state[0].sum() < 100.0, lambda state: (state[0] * 2.0, state[1] + 1.0), (x, wy.Constant(0.0)))
#@ branches
positive = x.sum() > 0.0
r1: wy.Tensor[Batch, In] = wy.cond(positive, lambda: x, lambda: x2)
r2: wy.Tensor[Batch, In] = wy.cond(positive, lambda v: v.sqrt(), lambda v: v * 0.0, x)
r3: wy.Tensor[Batch, Out] = wy.cond(positive, lambda v, u: v @ u, lambda v, u: v @ u * 2.0, x, w)
r4 = wy.cond(True, lambda v: v, lambda v: v * 2.0, array)
double, total = wy.cond(positive, lambda v: (v * 2.0, v.sum()), lambda v: (v * 3.0, v.mean()), x)
#@ custom_gradient
@wy.custom_vjp
def clipped(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, In]:
    return v
clipped.define(lambda v: (v, None), lambda kept, gradient: (gradient.clip(-1.0, 1.0),))
r: wy.Tensor[Batch, In] = clipped(x)
#@ custom_tangent
@wy.custom_jvp
def square(v: wy.Tensor[In]) -> wy.Tensor[In]:
    return v * v
square.define(lambda args, tangents: (square(*args), 2.0 * args[0] * tangents[0]))
wy.grad(square(vector).sum(), vector).forward()
#@ computed_again
def block(v: wy.Tensor[Batch, Hid]) -> wy.Tensor[Batch, Hid]:
    return (v @ wh).tanh()
r: wy.Tensor[Batch, Hid] = wy.checkpoint(block, h0)
#@ moving_buffers
mean = wy.Buffer(np.zeros(7, np.float32), dims=(In,), name="mean")
reveal_type(mean)  # reveals: Buffer[tuple[In]]
count = wy.Buffer(0.0)
result: wy.Tensor[Batch, In] = wy.updating(x - mean, {mean: x.mean(axis=0), count: count + 1.0})
sized = wy.Buffer(np.zeros((4, 7), np.float32), dims=(batch, in_))
#@ scan_of_a_recurrent_cell
steps = wy.Input(numbers(5, 4, 11), dims=(time, batch, hid))
last, states = wy.scan(lambda h, step: ((h + step).tanh(), h), h0, steps)
reveal_type(last)  # reveals: Node[Any, tuple[Batch, Hid]]
r: wy.Tensor[Batch, Out] = last @ w2
#@ scan_of_a_function_with_types
def decay(level: wy.Tensor[In], row: wy.Tensor[In]) -> tuple[wy.Tensor[In], wy.Tensor[In]]:
    level = level * 0.9 + row * 0.1
    return level, row - level
last, gaps = wy.scan(decay, vector, x)
reveal_type(gaps)  # reveals: Node[Any, tuple[Batch, In]]
#@ scan_backwards_without_results
total, nothing = wy.scan(lambda carry, row: (carry * 0.5 + row, None), vector, x, reverse=True)
reveal_type(total)  # reveals: Node[Any, tuple[In]]
reveal_type(nothing)  # reveals: None
#@ scan_of_a_product_with_weights
steps = wy.Input(numbers(5, 4, 11), dims=(time, batch, hid))
last, _ = wy.scan(lambda h, step: ((h @ wh + step).tanh(), None), h0, steps)
reveal_type(last)  # reveals: Node[Any, tuple[Batch, Hid]]
#@ loop_that_doubles
doubled = wy.while_loop(lambda v: v.sum() < 100.0, lambda v: v + v, x)
reveal_type(doubled)  # reveals: Node[Any, tuple[Batch, In]]
