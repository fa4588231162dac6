"""Prints, as JSON, the forms of the model in a file: the texts of its program's stages, and its function for JAX."""

from __future__ import annotations

import json
import runpy
import sys

import jax
import numpy as np

if __name__ == "__main__":
    names = runpy.run_path(sys.argv[1])
    operations = jax.make_jaxpr(names["function"])(names["parameters"], np.ones(4, np.float32))
    print(json.dumps({**names["train"].stages(), "jax": str(operations)}))  # noqa: T201
