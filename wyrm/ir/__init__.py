"""The intermediate representations: array functions, and the typed loop programs that they are lowered to.

This package makes no decisions: `wyrm.kernels` builds loop programs, and a backend compiles them to machine code.
"""
