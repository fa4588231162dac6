"""The guide for contributors: its outputs, its map of rooms and its extensions are true."""
