"""Special functions with the names of `scipy.special`."""

__all__: list[str] = []
