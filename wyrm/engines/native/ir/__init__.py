"""The intermediate representations: array functions, and the typed loop programs that they are translated to.

This package makes no decisions: `kernels` builds loop programs, and `llvm` compiles them to machine code.
"""
