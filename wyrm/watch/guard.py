"""What a request must be, before the server of runs looks at it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# The names of this machine by which a browser may call it. A site that rebinds its own name to 127.0.0.1 sends that
# name. Any port, because a tunnel may lead here from another one.
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
    """Passes on only requests that read, that come from this machine's own page, and that know the token.

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
    """Return whether an origin is the page of this server, as its request addresses it."""
    # Compared as text: what is no address is not that of this server.
    return origin.lower() == f"http://{host.lower()}"


def _encoded(headers: MutableMapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
