"""Connectionist temporal classification (CTC): the op, its kernels and its form for JAX."""
