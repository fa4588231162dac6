"""Products of matrices and vectors, and of elements."""
