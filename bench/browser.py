"""Headless Chromium and a server of files, for benchmarks and tests of pages."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


def chromium() -> str | None:
    """Return the path of Chromium; None where it is not installed."""
    return next((path for path in map(shutil.which, _NAMES) if path is not None), None)


def launched(playwright: Playwright) -> Browser:
    """Return headless Chromium; raise `ImportError` where it is not installed."""
    path = chromium()
    if path is None:
        raise ImportError("no Chromium", name="Chromium")
    sandbox = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []  # root has no sandbox
    return playwright.chromium.launch(executable_path=path, args=[*_FLAGS, *sandbox])


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder to this machine; give the address, which ends with a slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
