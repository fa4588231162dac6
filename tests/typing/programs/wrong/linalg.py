# ruff: noqa
# fmt: off
#@ cholesky_of_a_matrix_that_is_not_square
wy.linalg.cholesky(x)  # error: [arg-type] Argument 1 to "cholesky"
#@ inverse_of_a_vector
wy.linalg.inv(vector)  # error: [arg-type] Argument 1 to "inv"
#@ solution_of_other_rows
wy.linalg.solve(x.T @ x, y)  # error: [arg-type] Argument 2 to "solve" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[In, In]]]"
#@ axes_of_a_pseudoinverse
r: wy.Tensor[Batch, In] = wy.linalg.pinv(x)  # error: [arg-type] Argument 1 to "pinv"
#@ eigenvalues_are_vectors
r: wy.Tensor[In, In] = wy.linalg.eigh(x.T @ x).eigenvalues  # error: [assignment] Incompatible types in assignment
#@ solution_that_blames_the_right_side
wy.linalg.solve(wh, y)  # error: [arg-type] Argument 2 to "solve" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Hid, Hid]]]"
#@ triangular_solution_of_other_rows
wy.linalg.solve_triangular(wh, y, lower=True)  # error: [arg-type] Argument 2 to "solve_triangular" has incompatible type "Input[tuple[Batch, Out]]"; expected "Shaped[Any, FittingShape[tuple[Hid, Hid]]]"
#@ triangular_solution_in_another_order
wy.linalg.solve_triangular(wh, wh, trans="C")  # error: [call-overload] No overload variant of "solve_triangular" matches argument types "Parameter[tuple[Hid, Hid]]", "Parameter[tuple[Hid, Hid]]", "str"
#@ solution_result_of_other_axes
r: wy.Tensor[In, Hid] = wy.linalg.solve(x.T @ x, w)  # error: [arg-type] Argument 2 to "solve" has incompatible type "Parameter[tuple[In, Out]]"; expected "Shaped[Any, FittingShape[tuple[In, In]]]"
#@ ridge_regression_of_the_wrong_side
gram = x.T @ x
wy.linalg.solve(gram, x @ w)  # error: [arg-type] Argument 2 to "solve" has incompatible type "MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]"; expected "Shaped[Any,
#@ eigenvectors_of_a_rectangle
wy.linalg.eigh(x)  # error: [arg-type] Argument 1 to "eigh" has incompatible type "Input[tuple[Batch, In]]"; expected "Shaped[Never, AtLeast2D]"
#@ factor_of_a_rectangle
wy.linalg.cholesky(w)  # error: [arg-type] Argument 1 to "cholesky" has incompatible type "Parameter[tuple[In, Out]]"; expected "Shaped[Never, AtLeast2D]"
#@ determinant_of_a_vector
wy.linalg.det(vector)  # error: [arg-type] Argument 1 to "det" has incompatible type "Input[tuple[In]]"; expected "Shaped[Never, AtLeast2D]"
#@ inverse_in_a_product_of_other_axes
wy.linalg.inv(x.T @ x) @ w2  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[In, In]]" and "Parameter[tuple[Hid, Out]]")
#@ whitening_by_other_vectors
values, vectors = wy.linalg.eigh(x.T @ x)
h0 @ vectors  # error: [operator] Unsupported operand types for @ ("Input[tuple[Batch, Hid]]" and "Node[Any, tuple[In, In]]")
#@ power_in_part
wy.linalg.matrix_power(wh, 0.5)  # error: [call-overload] No overload variant of "matrix_power" matches argument types "Parameter[tuple[Hid, Hid]]", "float"
#@ least_squares_used_as_a_node
wy.linalg.lstsq(x, y) @ w  # error: [operator] No overload variant of "__rmatmul__" of "Node" matches argument type "LstsqResult[tuple[In, Out]]"
#@ solution_of_words
wy.linalg.solve(wh, "y")  # error: [call-overload] No overload variant of "solve" matches argument types "Parameter[tuple[Hid, Hid]]", "str"
#@ product_of_an_unknown_number_of_axes_before_others
def f(v: wy.Tensor[*tuple[Any, ...], In]) -> None:
    v @ w2  # error: [operator] Unsupported operand types for @ ("Node[Any, tuple[*tuple[Any, ...], In]]" and "Parameter[tuple[Hid, Out]]")
