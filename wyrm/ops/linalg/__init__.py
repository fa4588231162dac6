"""Linear algebra on the matrices in the last two axes: one module per factorization.

A factorization is an op that packs its results in one array of residuals. The ops that a user sees select or use parts
of them, so the forward and the backward pass share one factorization.
"""
