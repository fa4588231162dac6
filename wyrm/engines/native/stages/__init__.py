"""Compiles a graph to functions for a backend: `pipeline` lists the stages, each in a file of its own.

Nodes become a tree of loops (`loops`, `lower`), and that becomes functions over arrays (`functions`, with `reductions`,
`updates` for optimizers and `scans` for loops inside a graph) and `run`, which calls them (`source`). For data of given
sizes, `memory` assigns an offset to every buffer, and `arguments` an array to every argument.
"""
