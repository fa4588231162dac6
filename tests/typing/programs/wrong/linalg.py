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
