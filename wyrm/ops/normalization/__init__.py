"""Fused normalization: the ops and their kernels."""
