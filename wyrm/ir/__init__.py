"""The loop program: typed, frozen expressions, statements and functions, between what is compiled and machine code.

Nothing here decides anything: `wyrm.compiler` makes loop programs, and a backend turns one into machine code.
"""
