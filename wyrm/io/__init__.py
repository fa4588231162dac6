"""Checkpoints: parameters and other arrays in safetensors files, which are written completely or not at all.

>>> import tempfile, pathlib
>>> layer = wy.nn.Linear(3, 2)
>>> with tempfile.TemporaryDirectory() as folder:
...     wy.io.save(layer, pathlib.Path(folder) / "layer.safetensors")
...     wy.io.load(layer, pathlib.Path(folder) / "layer.safetensors")
"""

from wyrm.io.checkpoint import load, save
from wyrm.io.files import Arrays, load_arrays, save_arrays
from wyrm.io.tokenizers import PretrainedTokenizer, tokenizer
from wyrm.io.training import Checkpoints

__all__ = ["Arrays", "Checkpoints", "PretrainedTokenizer", "load", "load_arrays", "save", "save_arrays", "tokenizer"]
