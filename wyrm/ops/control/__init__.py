"""Loops, branches, checkpoints and custom derivatives inside a graph."""
