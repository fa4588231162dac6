"""Files: parameters and other arrays in the safetensors format, written whole or not at all."""

from wyrm.io.arrays import Arrays, load_arrays, save_arrays
from wyrm.io.checkpoint import load, save
from wyrm.io.training import Checkpoints

__all__ = ["Arrays", "Checkpoints", "load", "load_arrays", "save", "save_arrays"]
