"""Linear algebra with the names of `numpy.linalg`."""

__all__: list[str] = []
