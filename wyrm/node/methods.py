"""Where the ops put the methods of nodes; `methods.pyi` declares them, written by `python -m wyrm.declare`."""


class Node:
    """The methods of `Node`."""

    __slots__ = ()


class Parameter:
    """The methods of `Parameter`."""

    __slots__ = ()


class IndexNode:
    """The methods and comparisons of `IndexNode`."""

    __slots__ = ()
