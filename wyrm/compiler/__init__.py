"""From a graph to the loops of a program.

`lower` puts nodes into loops, `functions` and `updates` write them, `source` joins them to a program, `binding` gives
them arrays.
"""
