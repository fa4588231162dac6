"""The server of the page that shows runs, on this machine only."""

from __future__ import annotations

import errno
import importlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wyrm.errors import OptionError
from wyrm.support.options import whole
from wyrm.watch.guard import Application, Guard
from wyrm.watch.page import page
from wyrm.watch.runs import Histograms, RunFolder, Runs, part_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

FilePath = str | os.PathLike[str]
PORT = 8477
# Runs whose records one answer holds; a page that shows more asks again.
_MOST_PARTS = 64


def serve(
    paths: Sequence[FilePath],
    *,
    port: int = PORT,
    token: str | None = None,
    ready: Callable[[str], object] = print,
) -> None:
    """Serve the page of some runs until Ctrl-C; `ready` is called with its address.

    Each path is the folder of a run or a folder of such folders. The server listens on 127.0.0.1, and only whoever
    knows the token in the address may read. `token` is by default one that this user's servers share, so that an open
    page finds the server again after a restart. Port 0 is any that is free. A connection has 20 seconds for a request
    and its answer; beyond 128 connections, each new one ends that which waits longest for its request.

    Raise `DataError` for a path that is no folder, `OptionError` for a port that is not free, `ImportError` without
    the packages starlette and uvicorn.
    """
    runs = Runs(paths)
    _uvicorn()
    own = own_token() if token is None else token
    with listening(whole("port", port, 0)) as listener:
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/{own}/")
        server_of(runs, own).run(sockets=[listener])


def server_of(runs: Runs, token: str) -> Any:
    """Return the server of a page of runs, of uvicorn; it keeps no log, which would hold the token."""
    uvicorn = _uvicorn()
    from wyrm.watch.connections import BoundedProtocol

    config = uvicorn.Config(
        application(runs, token), log_config=None, access_log=False, server_header=False, date_header=False,
        lifespan="off", ws="none", loop="asyncio", http=BoundedProtocol, timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config)


def application(runs: Runs, token: str) -> Application:
    """Return the ASGI application of a page of runs."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    histograms_of = Histograms()
    page()  # made now, not for the first request

    def show(_: Request) -> Response:
        # The page names its own scripts by their hashes.
        policy = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        return Response(page(), media_type="text/html", headers={"content-security-policy": policy})

    def updates(request: Request) -> Response:
        return Response(_updates(runs(), request.query_params.getlist("at")), media_type="application/json")

    def histograms(request: Request) -> Response:
        run = runs().get(request.query_params.get("run", ""))
        if run is None:
            return Response("There is no such run.\n", status_code=404, media_type="text/plain")
        try:
            found = histograms_of(run, request.query_params.get("name", ""))
        except OSError as error:
            text = f"The histograms cannot be read: {error.strerror or error}.\n"
            return Response(text, status_code=404, media_type="text/plain")
        return Response(json.dumps(found, allow_nan=False), media_type="application/json")

    routes = [Route("/", show), Route("/updates", updates), Route("/histograms", histograms)]
    starlette = Starlette(routes=routes)
    starlette.router.redirect_slashes = False  # a redirection would lose the token
    return Guard(starlette, token)


def _updates(runs: dict[str, RunFolder], positions: Sequence[str]) -> bytes:
    """Return the list of runs, and of some of them the records after a position, given as `run:position:version`."""
    listed = [
        {"id": run.identity, "name": run.name, "folder": os.fspath(run.path), "modified": run.modified}
        for run in runs.values()
    ]
    parts = []
    for asked in positions[:_MOST_PARTS]:
        identity, _, place = asked.partition(":")
        position, _, version = place.partition(":")
        if identity in runs:
            at = int(position) if position.isascii() and position.isdigit() and len(position) < 16 else 0
            parts.append(json.dumps(identity).encode() + b":" + _part(runs[identity], at, version))
    head = json.dumps({"now": time.time(), "runs": listed}, allow_nan=False).encode()
    return head[:-1] + b',"parts":{' + b",".join(parts) + b"}}"


def _part(run: RunFolder, position: int, version: str) -> bytes:
    try:
        part = part_of(run, position, version)
    except OSError as error:
        return json.dumps({"error": error.strerror or str(error)}).encode()
    facts: dict[str, Any] = {
        "position": part.position, "version": part.version, "damaged": part.damaged, "more": part.more,
        "format": part.format,
    }  # fmt: skip
    return json.dumps(facts).encode()[:-1] + b',"records":[' + b",".join(part.lines) + b"]}"


def own_token() -> str:
    """Return the token of this user, which a file keeps that only they can read; a new one if there can be no file."""
    from platformdirs import user_state_path

    path = user_state_path("wyrm") / "watch-token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = _kept_token(path)
        if kept is not None:
            return kept
        token = secrets.token_urlsafe(24)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token)
        return token
    except OSError:
        return secrets.token_urlsafe(24)


def _kept_token(path: Path) -> str | None:
    """Return the token in a file; None if another user could know it or have written it, or if it is damaged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        status = os.fstat(descriptor)
        if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            return None
        token = file.read(100)
    return token if len(token) == 32 and token.replace("-", "").replace("_", "").isalnum() else None


def listening(port: int) -> socket.socket:
    """Return a socket that listens on a port of 127.0.0.1."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # a restart need not wait; elsewhere the option would allow two servers on one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise OptionError(
                f"port {port} is in use, perhaps by another `python -m wyrm watch`: look at that page, or give "
                f"another port with --port, such as --port 0 for any that is free"
            ) from None
        raise OptionError(f"cannot listen on port {port}: {error}; give another port with --port") from None
    return listener


def _uvicorn() -> Any:
    """Return the module uvicorn; raise `ImportError` that says what to install."""
    try:
        importlib.import_module("starlette")
        return importlib.import_module("uvicorn")
    except ImportError as error:
        raise ImportError(
            f"the page of runs needs the packages starlette and uvicorn ({error.name} is missing): "
            f"pip install 'wyrm-autodiff[watch]'"
        ) from None
