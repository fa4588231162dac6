# ruff: noqa
# fmt: off
#@ kernel_that_returns_a_number
@wy.kernel
def energy(of: wy.Tensor[Batch, In], weight: float) -> float:
    total = 0.0
    for b in range(of.shape[0]):
        total += weight
    return total
reveal_type(energy(x, 0.5))  # reveals: Node[Any, tuple[()]]
reveal_type(energy(of=x, weight=0.5))  # reveals: Node[Any, tuple[()]]
gradient: wy.Tensor[Batch, In] = wy.grad(energy(x, 0.5), x)
value: float = energy(x, 0.5).forward().item()
wy.show(energy)
#@ kernel_that_writes_an_array
@wy.kernel
def smoothed(of: wy.Tensor[Batch, In], factor: float | wy.Tensor[()], out: wy.Written[Batch, In]) -> None:
    for b in range(of.shape[0]):
        mean: Any = 0.0
        for i in range(of.shape[1]):
            mean = factor * mean + (1.0 - factor) * of[b, i]
            out[b, i] = mean
reveal_type(smoothed(x, 0.5))  # reveals: Node[Any, tuple[Batch, In]]
r: wy.Tensor[Batch, Out] = smoothed(x, wy.Parameter(np.float32(0.5))) @ w
text: str = smoothed.adjoint().source
wy.show(smoothed)
#@ kernel_of_another_axis
@wy.kernel
def first(of: wy.Tensor[Batch, In], out: wy.Written[Batch]) -> None:
    for b in range(of.shape[0]):
        out[b] = of[b, 0]
reveal_type(first(x))  # reveals: Node[Any, tuple[Batch]]
#@ kernel_with_options
@wy.kernel(batch=Batch, room=1000)
def rows(of: wy.Tensor[Batch, In], out: wy.Written[Batch, In]) -> None:
    for b in range(of.shape[0]):
        for i in range(of.shape[1]):
            out[b, i] = of[b, i] * of[b, 0]
reveal_type(rows(x))  # reveals: Node[Any, tuple[Batch, In]]
@wy.kernel(tape_limit=1000)
def energy(of: wy.Tensor[Batch, In]) -> float:
    return 0.0 * float(of.shape[0])
reveal_type(energy(x))  # reveals: Node[Any, tuple[()]]
@wy.kernel()
def again(of: wy.Tensor[Batch, In]) -> float:
    return 0.0 * float(of.shape[0])
reveal_type(again(x))  # reveals: Node[Any, tuple[()]]
#@ kernel_of_several_results
@wy.kernel
def both(of: wy.Tensor[Batch, In], out: wy.Written[Batch, In], last: wy.Written[Batch]) -> None:
    for b in range(of.shape[0]):
        out[b, 0] = of[b, 1]
        last[b] = of[b, 0]
a, c = both(x)
reveal_type(a)  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(c)  # reveals: Node[Any, tuple[Batch]]
@wy.kernel(room=10)
def three(of: wy.Tensor[Batch, In], f: wy.Written[Batch], g: wy.Written[In], h: wy.Written[Batch, In]) -> None:
    f[0] = g[0] = h[0, 0] = of[0, 0]
reveal_type(three(x)[1])  # reveals: Node[Any, tuple[In]]
@wy.kernel
def of_numbers(of: wy.Tensor[Batch, In]) -> tuple[float, float]:
    return 1.0 * of.shape[0], 2.0 * of.shape[1]
reveal_type(of_numbers(x)[1])  # reveals: Node[Any, tuple[()]]
@wy.kernel
def number_and_array(of: wy.Tensor[Batch, In], out: wy.Written[Batch]) -> float:
    out[0] = of[0, 0]
    return 1.0
total, rows = number_and_array(x)
reveal_type(total)  # reveals: Node[Any, tuple[()]]
reveal_type(rows)  # reveals: Node[Any, tuple[Batch]]
#@ kernel_of_integers
@wy.kernel
def picked(of: wy.Tensor[Batch, In], places: wy.IndexTensor[Batch], out: wy.Written[Batch]) -> None:
    for b in range(of.shape[0]):
        out[b] = of[b, places[b]]
reveal_type(picked(x, wy.IndexInput([0, 1, 2, 3], dims=(batch,))))  # reveals: Node[Any, tuple[Batch]]
