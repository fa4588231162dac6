"""Products of matrices and vectors."""
