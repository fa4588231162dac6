"""Programs: what `wyrm.compile` returns, and how it is run over data.

`runner` compiles a graph and calls it, `training` goes through epochs, `partition` divides rows among threads,
`data_parallel` adds up the gradients of parts of a batch, `feeding` checks data, `snapshot` remembers parameters.
"""
