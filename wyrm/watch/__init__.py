"""Watching a training in a browser: a training writes records to the folder of its run, and a page shows them.

`wy.train.fit(..., watch=True)` writes to a new folder in `runs`, and `python -m wyrm watch runs` shows all runs there,
live. `RunLogger` is the callback with more options, `RunWriter` writes the same for a loop of your own.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, wy.watch.RunWriter(folder, steps=2, tensorboard=False) as run:
...     for step in (1, 2):
...         run.values(step, {"loss": 1.0 / step})

`writer` appends `records` to files in `folders`: the values as `points`, norms and histograms by `measures`, the
options of the run by `config`; `tensorboard` writes for TensorBoard. `runs` reads the files, `summaries` keeps what the
table of runs shows; `serving` starts the `server` of them and the page.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "logger": "RunLogger",
        "serving": "serve",
        "writer": "RunWriter",
    },
)
