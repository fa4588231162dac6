"""Programs as a user would write them, each beside the same program in PyTorch or JAX.

Each module has `train`, which returns the last loss, the reward of a bandit, or the recall of two towers.
`tests/bench/test_bench_pairs.py` runs them and counts their lines.
"""
