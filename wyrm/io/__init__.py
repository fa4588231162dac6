"""Saving and loading: parameters and other arrays in safetensors files, written atomically."""

from wyrm.io.arrays import Arrays, load_arrays, save_arrays
from wyrm.io.checkpoint import load, save
from wyrm.io.training import Checkpoints

__all__ = ["Arrays", "Checkpoints", "load", "load_arrays", "save", "save_arrays"]
