"""Random programs: the reference engine, native programs and JAX compute the same values and gradients.

Native programs fill memory with NaN before it is written, so that what a kernel leaves out shows.

`python -m tests.fuzz --programs 1000 --seed 7` runs any number of them. A program that fails is shrunk, and printed as
Python that shows the failure by itself. The operations are in `productions`, one line each.
"""
