"""Ops that reduce axes, that accumulate along them, and that sort them."""
