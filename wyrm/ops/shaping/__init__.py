"""Ops that rearrange or repeat elements."""
