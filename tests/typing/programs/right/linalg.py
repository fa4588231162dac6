# ruff: noqa
# fmt: off
#@ factorizations_of_one_matrix
gram = x.T @ x
r1: wy.Tensor[In, In] = wy.linalg.cholesky(gram)
r2: wy.Tensor[In, In] = wy.linalg.inv(gram)
r3: wy.Tensor[()] = wy.linalg.det(gram)
r4: wy.Tensor[In] = wy.linalg.eigh(gram).eigenvalues
r5: wy.Tensor[In, In] = wy.linalg.eigh(gram)[1]
r6: wy.Tensor[()] = wy.linalg.slogdet(gram).logabsdet
r7: wy.Tensor[In, In] = wy.linalg.matrix_power(gram, 3)
r8: wy.Tensor[In, In] = wy.linalg.expm(gram)
#@ factorizations_of_a_batch
grams = sequence @ sequence.mT
reveal_type(wy.linalg.cholesky(grams))  # reveals: Node[Any, tuple[Batch, Time, Time]]
reveal_type(wy.linalg.eigvalsh(grams))  # reveals: Node[Any, tuple[Batch, Time]]
reveal_type(wy.linalg.slogdet(grams).sign)  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.linalg.svdvals(grams))  # reveals: Node[Any, tuple[Batch, Time]]
#@ factorizations_of_any_matrix
r1: wy.Tensor[In, Batch] = wy.linalg.pinv(x)
reveal_type(wy.linalg.svd(x, full_matrices=False).U)  # reveals: Node[Any, tuple[Batch, Any]]
reveal_type(wy.linalg.svd(x, full_matrices=False).Vh)  # reveals: Node[Any, tuple[Any, In]]
left, values, right = wy.linalg.svd(x, full_matrices=False)
r2: wy.Tensor[Batch, In] = left * values @ right
reveal_type(wy.linalg.qr(sequence).R)  # reveals: Node[Any, tuple[Batch, Any, In]]
#@ systems
gram = x.T @ x
r1: wy.Tensor[In, Out] = wy.linalg.solve(gram, w)
r2: wy.Tensor[In] = wy.linalg.solve(gram, vector)
r3: wy.Tensor[In, Out] = wy.linalg.solve_triangular(gram, w, lower=True)
r4: wy.Tensor[In] = wy.linalg.solve_triangular(gram, vector)
r5: wy.Tensor[In] = wy.linalg.cho_solve((gram, True), vector)
reveal_type(wy.linalg.solve(gram, numbers(7)))  # reveals: Node[Any, Any]
#@ systems_of_a_batch
grams = sequence @ sequence.mT
reveal_type(wy.linalg.solve(grams, sequence))  # reveals: Node[Any, tuple[Batch, Time, In]]
reveal_type(wy.linalg.solve_triangular(grams, sequence))  # reveals: Node[Any, tuple[Batch, Time, In]]
#@ norms
r1: wy.Tensor[()] = wy.linalg.norm(sequence)
r2: wy.Tensor[Batch] = wy.linalg.norm(x, axis=-1)
reveal_type(wy.linalg.norm(x, axis=0))  # reveals: Node[Any, Any]  # with the plugin: Node[Any, tuple[In]]
#@ linear_algebra_of_unknown_shapes
square: wy.Node = wy.Input(numbers(7, 7))
reveal_type(wy.linalg.cholesky(square))  # reveals: Node[Any, Any]
reveal_type(wy.linalg.solve(square, w))  # reveals: Node[Any, Any]
reveal_type(wy.linalg.solve(x.T @ x, unknown.T))  # reveals: Node[Any, Any]
#@ solution_for_an_unknown_side
def solved(gram: wy.Tensor[In, In], matrix: wy.Node, side: wy.Node) -> None:
    reveal_type(wy.linalg.solve(gram, side))  # reveals: Node[Any, Any]
    reveal_type(wy.linalg.solve(matrix, x.T))  # reveals: Node[Any, Any]
solved(x.T @ x, x.T @ x, x.T)
#@ ridge_regression
gram = x.T @ x + wy.eye(in_) * 0.1
coefficients = wy.linalg.solve(gram, x.T @ y)
r1: wy.Tensor[In, Out] = coefficients
r2: wy.Tensor[Batch, Out] = x @ coefficients
#@ whitening
values, vectors = wy.linalg.eigh(x.T @ x)
r: wy.Tensor[Batch, In] = x @ vectors / (values + 1.0).sqrt()
#@ mahalanobis_distances
factor = wy.linalg.cholesky(x.T @ x + wy.eye(in_))
z: wy.Tensor[In, Batch] = wy.linalg.solve_triangular(factor, x.T, lower=True)
r: wy.Tensor[Batch] = z.square().sum(axis=0)
