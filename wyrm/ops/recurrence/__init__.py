"""Fused recurrences, LSTM and GRU: the ops, their kernels and their forms for JAX."""
