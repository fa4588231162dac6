"""Where the ops put the operators of nodes; `operators.pyi` declares them, written by `python -m wyrm.declare`."""


class Node:
    """The operators of `Node`."""

    __slots__ = ()
