"""`serve`, which imports the server and its packages only when it is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from wyrm.support.imports import missing_package
from wyrm.support.options import whole
from wyrm.watch.runs import Runs

FilePath = str | os.PathLike[str]
PORT = 8477


def serve(
    paths: Sequence[FilePath],
    *,
    port: int = PORT,
    token: str | None = None,
    ready: Callable[[str], object] = print,
) -> None:
    """Serve the page of some runs until Ctrl-C; `ready` is called with its address.

    Each path is the folder of a run, or one that holds such folders at any depth. The server listens on 127.0.0.1, and
    only whoever knows the token in the address may read. `token` is by default one that this user's servers share, so
    that an open page finds the server again after a restart. Port 0 is any that is free. A connection has 20 seconds
    for a request and its answer; beyond 128 connections, each new one ends the one that has waited longest.

    Raise `DataError` for a path that is no folder, `OptionError` for a port that is not free, `MissingPackage` without
    the packages starlette and uvicorn.
    """
    runs = Runs(paths)
    try:
        from wyrm.watch.server import listening, own_token, server_of
    except ImportError as error:
        needed = f"the packages starlette and uvicorn ({error.name} is missing)"
        raise missing_package("the page of runs", needed, "watch", name=error.name) from None
    own = own_token() if token is None else token
    with listening(whole("port", port, 0)) as listener:
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/{own}/")
        server_of(runs, own).run(sockets=[listener])
