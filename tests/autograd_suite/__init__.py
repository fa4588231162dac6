"""The test suite of autograd, run on wyrm through a package of the same name; see `__main__`."""
