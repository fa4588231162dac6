"""Fused recurrences, LSTM and GRU: the ops and their kernels."""
