"""The server of the page that shows runs; it answers this machine only."""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import math
import os
import re
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from wyrm.errors import OptionError
from wyrm.train.callbacks import is_score
from wyrm.view.html import asset, html_page
from wyrm.watch.points import columns_of
from wyrm.watch.records import EVENTS, Record, is_written, number, read
from wyrm.watch.runs import Histograms, RunFolder, Runs, records_after


@dataclass
class RunSummary:
    """What is known of a run up to a position of a version of its file; `revision` grows when that changes."""

    version: str = ""
    position: int = 0
    revision: int = 0
    start: Record | None = None
    stopped: str | None = None
    step: int = 0
    elapsed: float = 0.0
    # By name: the last value, and the best finite one, the highest of scores such as the accuracy, else the lowest.
    last: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)

    def add(self, record: Record, until: float = math.inf) -> None:
        """Take a record in; of its points, those of a step up to `until`, where a later start began again."""
        if record["kind"] == "start":
            self.start, self.stopped = record, None
        elif record["kind"] == "end":
            self.stopped = record["stopped"]
        if record["step"] <= until:
            self.step, self.elapsed = record["step"], record["elapsed"]
        steps, columns = columns_of(record)
        for name, column in columns.items():
            values = [number(value) for step, value in zip(steps, column, strict=True) if step <= until]
            if values:
                self.last[name] = values[-1]
            if finite := [value for value in values if math.isfinite(value)]:
                better = max if is_score(name) else min
                self.best[name] = better(*finite, self.best.get(name, finite[0]))

    def shown(self) -> dict[str, Any]:
        """Return what the page needs, as JSON values."""
        start = self.start or {}
        return {
            "config": {**(start.get("config") or {}), "engine": start.get("engine")}, "stopped": self.stopped,
            "step": self.step, "elapsed": self.elapsed, "last": _finite(self.last), "best": self.best,
            "scores": [name for name in self.best if is_score(name)],
        }  # fmt: skip


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return values as JSON holds them: None for one that is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


class Summaries:
    """Summaries of runs, which read only what is new, and for no longer than `seconds` in one call."""

    def __init__(self, seconds: float = 0.3) -> None:
        self._seconds = seconds
        self._known: dict[str, RunSummary] = {}
        self._sizes: dict[str, tuple[float, int]] = {}
        # Counts changes. It starts at the time, so that a page of an earlier server asks for everything again.
        self.revision: int = int(time.time() * 1000)

    def __call__(self, runs: Iterable[RunFolder], since: int) -> tuple[dict[str, dict[str, Any]], bool]:
        """Return the summaries that changed after a revision, by identity, and whether some are not read yet."""
        runs, deadline, more = list(runs), time.perf_counter() + self._seconds, False
        unread = [run for run in runs if self._sizes.get(run.identity) != (run.modified, run.size)]
        for count, run in enumerate(unread, 1):
            self._read(run)
            if time.perf_counter() > deadline:
                more = count < len(unread)
                break
        everything = since > self.revision
        changed = {
            run.identity: summary.shown()
            for run in runs
            if (summary := self._known.get(run.identity)) is not None and (everything or summary.revision > since)
        }
        return changed, more

    def _read(self, run: RunFolder) -> None:
        with suppress(OSError):  # the page says so when it asks for the records
            self._known[run.identity] = self._updated(run, self._known.get(run.identity, RunSummary()))
        self._sizes[run.identity] = run.modified, run.size

    def _updated(self, run: RunFolder, known: RunSummary) -> RunSummary:
        """Return the summary with what is new in the file."""
        self.revision += 1
        more = True
        while more:
            part = records_after(run, known.position, known.version)
            if part.format is not None:
                break
            if part.version != known.version:
                known = RunSummary(part.version)
            starts = sum(record["kind"] == "start" for record in part.records) + (known.start is not None)
            known.position, more = part.position, part.more
            if starts > 1:
                known = _read_whole(run, known)
                continue
            for record in part.records:
                known.add(record)
        known.revision = self.revision
        return known


def _read_whole(run: RunFolder, known: RunSummary) -> RunSummary:
    """Return the summary of a run that began again, from its whole file: later records of earlier parts are void."""
    records = list(read(run.path / EVENTS))
    summary = RunSummary(known.version, known.position)
    for record, until in zip(records, _limits(records), strict=True):
        summary.add(record, until)
    return summary


def _limits(records: list[Record]) -> Iterator[float]:
    """Yield for each record the last step that counts: that of the earliest later start.

    >>> list(_limits([{"kind": "start", "step": 0}, {"kind": "values"}, {"kind": "start", "step": 5}]))
    [5, 5, inf]
    """
    limit, limits = math.inf, []
    for record in reversed(records):
        limits.append(limit)
        if record["kind"] == "start":
            limit = min(limit, record["step"])
    yield from reversed(limits)


# Runs whose records one answer holds; a page that shows more asks again.
_MOST_PARTS = 64


def server_of(runs: Runs, token: str) -> Any:
    """Return uvicorn's server of a page of runs, without a log, which would contain the token."""
    config = uvicorn.Config(
        application(runs, token), log_config=None, access_log=False, server_header=False, date_header=False,
        lifespan="off", ws="none", loop="asyncio", http=BoundedProtocol, timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config)


def application(runs: Runs, token: str) -> Application:
    """Return the ASGI application of a page of runs."""
    histograms_of, summaries = Histograms(), Summaries()
    page()  # made now, not for the first request

    def show(_: Request) -> Response:
        # The page names its own scripts by their hashes.
        policy = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        return Response(page(), media_type="text/html", headers={"content-security-policy": policy})

    def updates(request: Request) -> Response:
        since, positions = request.query_params.get("since", ""), request.query_params.getlist("at")
        return Response(_updates(runs(), summaries, since, positions), media_type="application/json")

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


def _updates(runs: dict[str, RunFolder], summaries: Summaries, since: str, positions: Sequence[str]) -> bytes:
    """Return the list of runs, summaries that changed after revision `since`, and new records of some runs.

    Each of `positions` is `run:position:version`.
    """
    changed, more = summaries(runs.values(), _request_number(since))
    listed = [
        {
            "id": run.identity, "name": run.name, "folder": os.fspath(run.path), "modified": run.modified,
            "written": is_written(run.path / EVENTS),
        }
        for run in runs.values()
    ]  # fmt: skip
    parts = []
    for asked in positions[:_MOST_PARTS]:
        identity, _, place = asked.partition(":")
        position, _, version = place.partition(":")
        if identity in runs:
            parts.append(
                json.dumps(identity).encode() + b":" + _page_part(runs[identity], _request_number(position), version)
            )
    facts = {"revision": summaries.revision, "summaries": changed, "more": more}
    head = json.dumps({"now": time.time(), "runs": listed, **facts}, allow_nan=False).encode()
    return head[:-1] + b',"parts":{' + b",".join(parts) + b"}}"


def _request_number(text: str) -> int:
    """Return the number of a request; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _page_part(run: RunFolder, position: int, version: str) -> bytes:
    try:
        part = records_after(run, position, version)
    except OSError as error:
        return json.dumps({"error": error.strerror or str(error)}).encode()
    facts: dict[str, Any] = {
        "position": part.position, "version": part.version, "damaged": part.damaged, "more": part.more,
        "format": part.format,
    }  # fmt: skip
    return json.dumps(facts).encode()[:-1] + b',"records":[' + b",".join(part.lines) + b"]}"


def own_token() -> str:
    """Return the token of this user from a file that only they can read; a new one if no file can be written."""
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
    """Return the token in a file; None if another user could have read or written it, or if it is damaged."""
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
        if os.name == "posix":  # lets a restart take the port at once; on Windows it would allow two servers on it
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


# Seconds from the start of a connection, or its last answer, to the end of its next answer; the page waits 15 seconds.
SECONDS = 20.0
# The most connections; a page has six at most.
MOST = 128


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, which ends after 20 seconds without a complete request and its answer.

    uvicorn only limits the time between two requests: a request that never ends, or an answer that is never read, would
    keep its connection. Beyond 128 connections, each new one ends the one that has waited longest for its request.
    """

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MOST:
            waiting = [each for each in self.connections if isinstance(each, BoundedProtocol) and not each._answers]
            longest = min(waiting, key=lambda each: each._since)
            self.connections.discard(longest)  # at once, because others may connect before it has ended
            longest.transport.abort()

    def on_response_complete(self) -> None:
        """Give the next request its time."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of a connection that is closed."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._since = self.loop.time()
        # Not `close`, which would wait until the other side has read what it was sent.
        self._timer = self.loop.call_later(SECONDS, self.transport.abort)


# Each may use those before it.
_SCRIPTS = ("store", "lines", "chart", "modules", "histograms", "findings", "table", "scatter", "link", "main")


@cache
def page() -> str:
    """Return the page, which asks the server that it comes from for the runs."""
    return html_page(
        "Training",
        body=asset("wyrm.watch", "watch.html"),
        data={},
        styles=[asset("wyrm.watch", "uPlot.min.css"), asset("wyrm.watch", "watch.css")],
        libraries=[asset("wyrm.watch", "uPlot.iife.min.js")],
        scripts=[asset("wyrm.watch", f"watch_{name}.js") for name in _SCRIPTS],
        connects=True,
    )


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# The hosts in requests that are answered. A site that rebinds its own name to 127.0.0.1 (DNS rebinding) sends that name
# instead. Any port is accepted, because a tunnel may have another one.
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Forwards only requests that read, that come from this server's own page, and that have the token.

    The path of a request is `/TOKEN/...`; the application sees the rest.
    """

    def __init__(self, application: Application, token: str) -> None:
        self._application, self._token = application, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":  # no web sockets
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            status, text = refusal
            headers = {**HEADERS, "content-type": "text/plain; charset=utf-8"}
            if status == 405:
                headers["allow"] = "GET, HEAD"
            await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else text.encode()})
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                added = [pair for pair in _encoded(HEADERS) if pair[0] not in own]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        rest = "/" + scope["path"].split("/", 2)[2]
        await self._application({**scope, "path": rest, "raw_path": rest.encode()}, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return why a request is refused, None if it is not."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            return 403, "This server answers requests to 127.0.0.1 and localhost only.\n"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "This server only reads.\n"
        from_elsewhere = any(site not in ("same-origin", "none") for site in headers.get(b"sec-fetch-site", []))
        if from_elsewhere or any(not _is_own(origin, hosts[0]) for origin in headers.get(b"origin", [])):
            return 403, "This server answers its own page only. Copy the address into the browser's address bar.\n"
        parts = scope["path"].split("/", 2)
        known = hmac.compare_digest(parts[1].encode(errors="replace") if len(parts) == 3 else b"", self._token)
        if not known:
            return 403, "The address lacks the token: open the one that `python -m wyrm watch` prints.\n"
        return None


def _is_own(origin: str, host: str) -> bool:
    """Return whether an origin is this server, as the request names it."""
    # Compared as text, so that malformed origins differ.
    return origin.lower() == f"http://{host.lower()}"


def _encoded(headers: MutableMapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
