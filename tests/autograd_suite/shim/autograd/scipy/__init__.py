"""SciPy's names."""
