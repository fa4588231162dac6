"""Elementwise ops: each is a formula."""
