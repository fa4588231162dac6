"""Fused attention: the op, its kernels and its form for JAX."""
