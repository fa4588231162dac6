# ruff: noqa
# fmt: off
#@ kernel_of_other_axes
@wy.kernel
def energy(of: wy.Tensor[In, Batch], weight: float) -> float:
    return weight * of.shape[0]
energy(x, 0.5)  # error: [arg-type] Argument 1 to "__call__" of "Kernel" has incompatible type
#@ kernel_that_writes_with_other_axes
@wy.kernel
def smoothed(of: wy.Tensor[In, Batch], out: wy.Written[In]) -> None:
    out[0] = of[0, 0]
smoothed(x)  # error: [arg-type] Argument 1 to "__call__" of "KernelOfArrays" has incompatible type
#@ kernel_with_options_of_other_axes
@wy.kernel(batch=In)
def smoothed(of: wy.Tensor[In, Batch], out: wy.Written[In]) -> None:
    out[0] = of[0, 0]
smoothed(x)  # error: [arg-type] Argument 1 to "__call__" of "KernelOfArrays" has incompatible type
#@ kernel_without_an_operand
@wy.kernel
def scaled(of: wy.Tensor[Batch, In], by: wy.Tensor[Batch], out: wy.Written[Batch]) -> None:
    out[0] = of[0, 0]
scaled(x)  # error: [call-arg] Too few arguments for "__call__" of "KernelOfArrays"
#@ result_of_a_kernel_of_other_axes
@wy.kernel
def first(of: wy.Tensor[Batch, In], out: wy.Written[Batch]) -> None:
    out[0] = of[0, 0]
r: wy.Tensor[In] = first(x)  # error: [assignment] Incompatible types in assignment
#@ second_result_of_a_kernel_of_other_axes
@wy.kernel(room=100)
def both(of: wy.Tensor[Batch, In], out: wy.Written[Batch, In], last: wy.Written[Batch]) -> None:
    last[0] = of[0, 0]
a, c = both(x)
r: wy.Tensor[In] = c  # error: [assignment] Incompatible types in assignment
