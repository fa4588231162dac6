"""The loop program: typed, frozen expressions, statements and functions, between what is compiled and machine code.

Nothing here decides anything: `wyrm.kernels` makes loop programs, and a backend turns one into machine code.
"""
