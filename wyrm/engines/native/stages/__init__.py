"""The stages of the native engine after those that all engines share: `pipeline` lists them.

`fuse` puts nodes into a tree of loops (`loops`), `materialize` decides which values arrays store, and `write` writes
functions over arrays and `run`, which calls them: with `functions` and `reductions` for loops, `expressions` for what
stands in them, `updates` for optimizers and `runtime` for what every program calls. For data of given sizes, `memory`
places every buffer and binds an array to every argument.
"""
