"""Ops that select elements, and that write to a copy."""
