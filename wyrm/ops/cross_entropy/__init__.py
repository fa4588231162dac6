"""Softmax and cross-entropy: the ops, their kernels and their forms for JAX."""
