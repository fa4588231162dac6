"""From a graph to what a backend compiles: `pipeline` lists the stages, each in a file of its own.

A graph of nodes becomes a tree of loops (`loops`, `lower`), and that becomes functions over arrays (`functions`, with
`reductions` for reductions, `updates` for optimizers, `scans` for loops inside a graph) and `run`, which calls them
(`source`). For data of given sizes, `memory` assigns offsets to buffers and `arguments` an array to every argument.
"""
