"""Pooling and resampling: the ops, their kernels and their forms for JAX."""
