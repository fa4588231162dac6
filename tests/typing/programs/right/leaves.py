# ruff: noqa
# fmt: off
#@ parameters
reveal_type(wy.Parameter(1.0))  # reveals: Parameter[tuple[()]]
reveal_type(wy.Parameter(np.float32(1.0), name="slope"))  # reveals: Parameter[tuple[()]]
reveal_type(wy.Parameter([1.0, 2.0]))  # reveals: Parameter[Any]
reveal_type(wy.Parameter(array))  # reveals: Parameter[Any]
reveal_type(wy.Parameter(array, dims=(batch, in_)))  # reveals: Parameter[tuple[Batch, In]]
reveal_type(wy.Parameter(array, (Batch, In)))  # reveals: Parameter[tuple[Batch, In]]
reveal_type(wy.Parameter(array, (batch, In), dtype=np.float64))  # reveals: Parameter[tuple[Batch, In]]
reveal_type(wy.Parameter(numbers(4, 5, 7), dims=(Batch, Time, 7)))  # reveals: Parameter[tuple[Batch, Time, Any]]
#@ zeros
reveal_type(wy.Parameter.zeros((in_, out)))  # reveals: Parameter[tuple[In, Out]]
reveal_type(wy.Parameter.zeros((7, out), dtype=np.float64))  # reveals: Parameter[tuple[Any, Out]]
reveal_type(wy.Parameter.zeros((7, 3)))  # reveals: Parameter[tuple[Any, Any]]
reveal_type(wy.Parameter.zeros((batch, heads, time, key), name="p"))  # reveals: Parameter[tuple[Batch, Heads, Time, Key]]
reveal_type(wy.Parameter.zeros(array.shape))  # reveals: Parameter[Any]
#@ inputs
reveal_type(wy.Input())  # reveals: Input[tuple[()]]
reveal_type(wy.Input(name="x", dtype=np.float64))  # reveals: Input[tuple[()]]
reveal_type(wy.Input(2.0))  # reveals: Input[tuple[()]]
reveal_type(wy.Input(array))  # reveals: Input[Any]
reveal_type(wy.Input(dims=(batch, in_), finite=False))  # reveals: Input[tuple[Batch, In]]
reveal_type(wy.Input(array, (batch, in_)))  # reveals: Input[tuple[Batch, In]]
reveal_type(wy.Input(array, dims=(Batch, In)))  # reveals: Input[tuple[Batch, In]]
reveal_type(wy.Input(dims=(batch, time, 7)))  # reveals: Input[tuple[Batch, Time, Any]]
reveal_type(wy.Input(dims=(4, 7)))  # reveals: Input[tuple[Any, Any]]
reveal_type(wy.Input(dims=(1, 2, 3)))  # reveals: Input[Any]
reveal_type(wy.Input(dims=(batch, heads, time, time), dtype=bool))  # reveals: Input[tuple[Batch, Heads, Time, Time]]
#@ five_axes
wide = wy.Input(dims=(batch, heads, source, time, key))
reveal_type(wide)  # reveals: Input[tuple[Batch, Heads, Source, Time, Key]]
reveal_type(wide.sum(axis=-1))  # reveals: Sum[Input[tuple[Batch, Heads, Source, Time, Key]], tuple[Batch, Heads, Source, Time]]
reveal_type(wide @ wide.mT)  # reveals: MatMul[Input[tuple[Batch, Heads, Source, Time, Key]], Transpose[Any, tuple[Batch, Heads, Source, Key, Time]], tuple[Batch, Heads, Source, Time, Time]]
#@ unsized_axes
class Rows(wy.Dim): ...
rows = wy.Input(dims=(Rows(), in_))
reveal_type(rows @ w)  # reveals: MatMul[Input[tuple[Rows, In]], Parameter[tuple[In, Out]], tuple[Rows, Out]]
rows.set(numbers(9, 7))
(rows @ w).forward()
#@ constants
reveal_type(wy.Constant(2.0))  # reveals: Constant[tuple[()]]
reveal_type(wy.Constant([1.0, 2.0]))  # reveals: Constant[Any]
reveal_type(wy.Constant(array, dims=(Batch, In)))  # reveals: Constant[tuple[Batch, In]]
r: wy.Tensor[Batch, In] = x + wy.Constant(array)
#@ set_values
x.set(array)
x.set(array.tolist())
scale.set(3)
scale.set(np.float64(3.0))
b.set([1.0, 2.0, 3.0])
#@ values_and_gradients
loss = (x @ w + b).sum()
loss.backward()
value: NDArray[np.floating[Any]] = loss.forward()
gradient: NDArray[np.floating[Any]] = w.gradient
w.clear_gradient()
number: float = float(loss)
held: NDArray[np.floating[Any]] = w.value
#@ parameters_of_a_node
found: list[wy.Parameter[Any]] = (x @ w + b).parameters()
for parameter in found:
    parameter.set(parameter.value - 0.1 * parameter.gradient)
#@ annotated_by_literal_sizes
wl: wy.Parameter[tuple[Literal[7], Literal[3]]] = wy.Parameter(numbers(7, 3))
xl: wy.Input[tuple[Batch, Literal[7]]] = wy.Input(numbers(4, 7))
r: wy.Tensor[Batch, Literal[3]] = xl @ wl
#@ literal_sizes_in_signatures
def f(v: wy.Tensor[Batch, Literal[3]], u: wy.Tensor[Literal[3], Literal[4]]) -> wy.Tensor[Batch, Literal[4]]:
    return v @ u
#@ unchecked_axis
mixed = wy.Input(numbers(4, 7), dims=(batch, wy.any_dim(7)))
reveal_type(mixed)  # reveals: Input[tuple[Batch, Any]]
r1: wy.Tensor[Batch, In] = mixed
r2: wy.Tensor[Batch, Out] = mixed @ w
r3: wy.Tensor[Batch, In] = x + mixed
#@ shapes_of_unknown_length
def made(shape: tuple[int, ...]) -> wy.Parameter:
    return wy.Parameter.zeros(shape)
size = made((7, 3)).shape
copied = wy.Input(array, dims=x.shape)
