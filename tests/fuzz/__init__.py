"""Random programs: the reference engine, native programs and JAX compute the same values and gradients.

`python -m tests.fuzz --programs 1000 --seed 7` runs any number of them. A program that fails is shrunk, and printed as
Python that shows the failure by itself. The operations are in `productions`, one line each.
"""
