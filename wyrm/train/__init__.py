"""The programs that `wyrm.compile` returns, and how they run over data.

`runner` compiles a graph and calls it, `training` runs epochs, `partition` divides rows among threads, `data_parallel`
combines the gradients of parts of a batch, `feeding` checks data, `snapshot` copies parameters.
"""
