"""Benchmarks: `python -m bench` lists them, `python -m bench engine --json FILE` runs one."""
