"""Functions over arrays: traced, differentiated, transformed."""
