"""Watching a training in a browser: what it writes to the folder of its run, and the page that shows it.

`wy.train.fit(..., watch=True)` writes to a new folder in `runs`, and `python -m wyrm watch runs` shows all runs there,
live. `RunLogger` is the callback with more options, `RunWriter` writes the same for a loop of your own.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, wy.watch.RunWriter(folder, steps=2, tensorboard=False) as run:
...     for step in (1, 2):
...         run.values(step, {"loss": 1.0 / step})

`writer` measures by `measures` and `probe`, as often as `pace` allows, and appends `records` to files; `server` serves
what `runs` reads, and a page.
"""

from typing import TYPE_CHECKING

from wyrm.support import late_imports as _lazy_imports

if TYPE_CHECKING:
    from wyrm.watch.logger import RunLogger
    from wyrm.watch.server import serve
    from wyrm.watch.writer import RunWriter

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name
    __getattr__, __dir__ = _lazy_imports.lazy_imports(
        __name__, {"RunLogger": "logger", "RunWriter": "writer", "serve": "server"}
    )

__all__ = ["RunLogger", "RunWriter", "serve"]
