"""Random numbers, and the ops that draw them."""
