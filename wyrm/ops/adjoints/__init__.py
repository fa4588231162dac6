"""Derivatives of kernels, source to source: the adjoint and the tangent of a kernel are kernels too.

`reading` brings the source of a kernel, and of the kernels that it calls, into a simple form. `values` gives each value
of a scalar a name of its own, so that only elements of arrays and variables that loops carry are ever overwritten.
`elements` finds the reads of elements that no later turn overwrites, `jumps` the conditions and integers that rounding
may change. `reverse` writes the adjoint: the loops run backwards, a turn begins with the values that it needs, computed
again where all that they read is still there, and else popped from a tape. `tangent` writes the derivative along a
direction. The rules of functions are those of formulas, `wyrm.ops.elementwise.derivatives`. `blocks` keeps tapes short:
it divides the turns of a loop into blocks that run forward again.

The invariant: a backward sweep writes to no array and no variable of the kernel but those that it restores itself, so
all that it reads has the value that it had at the same place of the forward sweep.
"""
