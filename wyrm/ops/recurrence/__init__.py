"""Fused recurrences, LSTM and GRU: the ops, their kernels and their forms for JAX."""

import wyrm.ops.recurrence.jax_form  # noqa: F401  # registers the forms
