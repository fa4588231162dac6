# ruff: noqa
# fmt: off
#@ inner_axes_differ
x @ w2  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, In]]" and "Parameter[tuple[Hid, Out]]")
#@ forgotten_transpose
x @ x2  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, In]]" and "Input[tuple[Batch, In]]")
#@ matrix_by_wrong_vector
x @ b  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, In]]" and "Parameter[tuple[Out]]")
#@ vector_by_wrong_matrix
b @ w  # error: [operator] Unsupported operand types for @ ("Parameter[tuple[Out]]" and "Parameter[tuple[In, Out]]")
#@ batches_differ
other = wy.Input(dims=(time, in_, source))
sequence @ other  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, Time, In]]" and "Input[tuple[Time, In, Source]]")
#@ rank_three_by_wrong_matrix
sequence @ w2  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, Time, In]]" and "Parameter[tuple[Hid, Out]]")
#@ matmul_of_a_scalar
x @ scale  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, In]]" and "Parameter[tuple[()]]")
#@ matmul_of_a_number
x @ 2.0  # error: [operator] No overload variant of "__matmul__" of "Node" matches argument type "float"
#@ matmul_of_indices
tokens @ w  # error: [operator] No overload variant of "__rmatmul__" of "Node" matches argument type "IndexInput[tuple[Batch, Time]]"
#@ matmul_by_indices
x @ tokens  # error: [operator] No overload variant of "__matmul__" of "Node" matches argument type "IndexInput[tuple[Batch, Time]]"
#@ matmul_result
r: wy.Tensor[Batch, In] = x @ w  # error: [assignment] Incompatible types in assignment (expression has type "MatMul[Any, Parameter[tuple[In, Out]], tuple[Batch, Out]]", variable has type "Node[Any, tuple[Batch, In]]")
#@ transpose_result
r: wy.Tensor[Batch, In] = x.T  # error: [assignment] Incompatible types in assignment (expression has type "Transpose[Any, tuple[In, Batch]]", variable has type "Node[Any, tuple[Batch, In]]")
#@ transpose_of_a_vector
vector.mT  # error: [misc] Invalid self argument "MatrixTransposed[tuple[In]]"
#@ transpose_then_add
x + x.T  # error: [operator] Unsupported operand types for + ("Input[tuple[Batch, In]]" and "Transpose[Input[tuple[Batch, In]], tuple[In, Batch]]")
#@ permutation_result
r: wy.Tensor[Batch, Time, In] = sequence.transpose(0, 2, 1)  # error: [assignment] Incompatible types in assignment (expression has type "Transpose[Input[tuple[Batch, Time, In]], tuple[Batch, In, Time]]"
#@ swapped_axes_result
r: wy.Tensor[Batch, Heads, Time, Time] = scores.swapaxes(1, 2)  # error: [assignment] Incompatible types in assignment (expression has type "Transpose[Input[tuple[Batch, Heads, Time, Time]], tuple[Batch, Time, Heads, Time]]"
#@ vector_dot_of_other_shape
x.vector_dot(y)  # error: [arg-type] Argument 1 to "vector_dot" of "Node" has incompatible type "Input[tuple[Batch, Out]]"
#@ vector_dot_of_indices
x.vector_dot(labels)  # error: [call-overload] No overload variant of "vector_dot" of "Node" matches argument type "IndexInput[tuple[Batch]]"
#@ forgotten_transpose_in_attention
def attend(q: wy.Tensor[Batch, Time, Emb], k: wy.Tensor[Batch, Source, Emb]) -> wy.Tensor[Batch, Time, Source]:
    return (q @ k).softmax()  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Time, Emb]]" and "Node[Any, tuple[Batch, Source, Emb]]")
#@ keys_and_values_swapped
def attend(
    q: wy.Tensor[Batch, Time, Key], k: wy.Tensor[Batch, Source, Key], v: wy.Tensor[Batch, Source, Emb]
) -> wy.Tensor[Batch, Time, Emb]:
    return (q @ v.mT).softmax() @ k  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Time, Key]]" and "Transpose[Node[Any, tuple[Batch, Source, Emb]], tuple[Batch, Emb, Source]]")
#@ erased_then_wrong_product
h = (x @ w1).erase()
h @ w  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Batch, Hid]]" and "Parameter[tuple[In, Out]]")
#@ partly_unknown_still_checks
def f(a: wy.Tensor[Any, In]) -> wy.Tensor[Any, Out]:
    return a @ w2  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[Any, In]]" and "Parameter[tuple[Hid, Out]]")
#@ shape_reused_in_one_name
h = x @ w1
h = h + b1  # error: [assignment] Incompatible types in assignment (expression has type "Add[MatMul[Any, Any, tuple[Batch, Hid]], Parameter[tuple[Hid]], tuple[Batch, Hid]]"
#@ product_declared_with_other_rows
r: wy.Tensor[In, Out] = x @ w  # error: [assignment] Incompatible types in assignment (expression has type "MatMul[Input[tuple[Batch, In]], Any, tuple[Batch, Out]]", variable has type "Node[Any, tuple[In, Out]]")
#@ product_declared_with_other_columns
r: wy.Tensor[Batch, Hid] = x @ w  # error: [assignment] (expression has type "MatMul[Any, Parameter[tuple[In, Out]], tuple[Batch, Out]]", variable has type "Node[Any, tuple[Batch, Hid]]")
#@ product_returned_with_other_columns
def project(v: wy.Tensor[B, In]) -> wy.Tensor[B, Hid]:
    return v @ w  # error: [return-value] Incompatible return value type (got "MatMul[Any, Parameter[tuple[In, Out]], tuple[B, Out]]", expected "Node[Any, tuple[B, Hid]]")
#@ layer_that_returns_its_hidden_axes
def layer(v: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
    return (v @ w1).relu()  # error: [return-value] Incompatible return value type (got "Relu[MatMul[Any, Any, tuple[Batch, Hid]], tuple[Batch, Hid]]", expected "Node[Any, tuple[Batch, Out]]")
