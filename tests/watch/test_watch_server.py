"""The server of runs: what it serves, and what it refuses."""

from __future__ import annotations

import codecs
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import wyrm as wy
from tests.watch.test_watch_files import START, values
from wyrm.errors import OptionError
from wyrm.watch.records import EVENTS, encoded
from wyrm.watch.runs import Runs
from wyrm.watch.server import listening, own_token, server_of

TOKEN = "secret-token-of-this-test"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Server(NamedTuple):
    """A server in a thread, and the folder of its runs."""

    port: int
    runs: Path

    def get(self, path: str, method: str = "GET", host: str | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if host != "":
                connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def updates(self, *at: str) -> dict[str, Any]:
        answer = self.get(f"/{TOKEN}/updates?" + "&".join(f"at={each}" for each in at))
        assert answer.status == 200
        result: dict[str, Any] = json.loads(answer.body)
        return result


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    root = tmp_path_factory.mktemp("served")
    (root / "secret.jsonl").write_bytes(encoded(START | {"name": "outside"}))
    for name in ("first", "<script>alert(1)</script>".replace("/", "")):
        (root / "runs" / name).mkdir(parents=True)
        (root / "runs" / name / EVENTS).write_bytes(encoded(START) + encoded(values(20, loss=0.5)))
    (root / "runs" / "first" / "secret.txt").write_text("not served")
    listener = listening(0)
    running = server_of(Runs([root / "runs"]), TOKEN)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    yield Server(listener.getsockname()[1], root / "runs")
    running.should_exit = True
    thread.join()
    listener.close()


def test_the_page_and_the_records_are_served(server: Server) -> None:
    page = server.get(f"/{TOKEN}/")
    assert page.status == 200 and b"<title>Training</title>" in page.body
    listed = server.updates()["runs"]
    assert {run["name"] for run in listed} == {"first", "<script>alert(1)<script>"}
    identity = next(run["id"] for run in listed if run["name"] == "first")
    part = server.updates(f"{identity}:0:")["parts"][identity]
    assert [record["kind"] for record in part["records"]] == ["start", "values"]
    again = server.updates(f"{identity}:{part['position']}:{part['version']}")["parts"][identity]
    assert again["records"] == [] and again["position"] == part["position"]
    histograms = server.get(f"/{TOKEN}/histograms?run={identity}&name=layer.weight")
    assert (histograms.status, histograms.body) == (200, b"[]")


def test_every_answer_has_the_headers_of_a_private_page(server: Server) -> None:
    for path in (f"/{TOKEN}/", f"/{TOKEN}/updates", f"/{TOKEN}/absent", "/wrong/"):
        headers = server.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store" and headers["cross-origin-resource-policy"] == "same-origin"
        assert not {"access-control-allow-origin", "server", "set-cookie"} & headers.keys()


@pytest.mark.parametrize(
    "path",
    ["/", "", "/updates", "/wrong/", "/wrong/updates", f"/{TOKEN}", f"/{TOKEN}x/", f"//{TOKEN}/", f"/?token={TOKEN}"],
)
def test_without_the_token_nothing_is_served(server: Server, path: str) -> None:
    answer = server.get(path or "*")
    assert answer.status in (400, 403) and b"first" not in answer.body


@pytest.mark.parametrize(
    "host",
    ["attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example:80", "10.0.0.1", "127.0.0.1@x", ""],
)
def test_a_rebound_name_is_refused(server: Server, host: str) -> None:
    assert server.get(f"/{TOKEN}/updates", host=host).status in (400, 403)


@pytest.mark.parametrize(
    "path",
    ["http://[", "//[", "updates?at=http://[", "updates?at[]=&&==&%", "histograms?run=%ed%b2%80", "updates/", "%ff"],
)
def test_malformed_addresses_are_no_errors_of_the_server(server: Server, path: str) -> None:
    answer = server.get(f"/{TOKEN}/{path}", Cookie="http://[", Referer="http://[", Range="bytes=[")
    assert answer.status in (200, 404) and "location" not in answer.headers


def test_one_run_cannot_break_the_answer_for_others(server: Server) -> None:
    good = (encoded(START) + encoded(values(20, loss=0.5))).decode()
    hostile = {
        "marked": codecs.BOM_UTF8 + good.encode(), "utf-16": good.encode("utf-16"), "utf-32": good.encode("utf-32-le"),
        "empty": b"", "zeros": b"\0" * 1000 + b"\n", "deep": b"[" * 100_000 + b"\n", "torn": good.encode()[:-9],
    }  # fmt: skip
    for name, data in hostile.items():
        (server.runs / name).mkdir()
        (server.runs / name / EVENTS).write_bytes(data)
    try:
        found = {run["name"]: run["id"] for run in server.updates()["runs"]}
        parts = server.updates(*(f"{identity}:0:" for identity in found.values()))["parts"]
        damaged = {name: parts[found[name]]["damaged"] for name in hostile}
        assert len(parts[found["first"]]["records"]) == 2
        assert damaged == {"marked": 1, "utf-16": 2, "utf-32": 2, "empty": 0, "zeros": 1, "deep": 1, "torn": 0}
        assert [record["kind"] for record in parts[found["marked"]]["records"]] == ["values"]
    finally:
        for name in hostile:
            shutil.rmtree(server.runs / name)


def _until_closed(connection: socket.socket) -> bytes:
    """Return what a connection answers until the server ends it."""
    connection.settimeout(10.0)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            answer += data
    return answer


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_requests_that_do_not_end_are_closed(server: Server, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.watch.server.SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(sent)
        assert _until_closed(connection) == b""


def test_a_connection_that_asks_bit_by_bit_after_an_answer_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wyrm.watch.server.SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"403" in connection.recv(1 << 16)
        with pytest.raises(OSError):
            for _ in range(200):
                connection.sendall(b"G")
                time.sleep(0.05)


def test_beyond_the_limit_the_connection_that_waits_longest_ends(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wyrm.watch.server.MOST", 4)
    with contextlib.ExitStack() as stack:
        begun = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(4)]
        for connection in begun:
            connection.sendall(b"GET / HT")
        assert server.get(f"/{TOKEN}/updates").status == 200
        assert _until_closed(begun[0]) == b""
        begun[3].sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"403" in begun[3].recv(1 << 16)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:8477"])
def test_the_names_of_this_machine_are_served(server: Server, host: str) -> None:
    assert server.get(f"/{TOKEN}/updates", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["}, {"Origin": "http://[::1"}, {"Origin": "http://\xbd"}, {"Origin": ""}, {"Origin": "://"},
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "http://["}, {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
)  # fmt: skip
def test_requests_of_other_sites_are_refused(server: Server, headers: dict[str, str]) -> None:
    assert server.get(f"/{TOKEN}/updates", **headers).status == 403


def test_requests_of_the_own_page_are_served(server: Server) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec_Fetch_Site": "same-origin"}
    assert server.get(f"/{TOKEN}/updates", **own).status == 200
    assert server.get(f"/{TOKEN}/", Sec_Fetch_Site="none").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_the_server_only_reads(server: Server, method: str) -> None:
    answer = server.get(f"/{TOKEN}/updates", method)
    assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD"
    assert server.get(f"/{TOKEN}/", "HEAD").body == b""


@pytest.mark.parametrize(
    "path",
    [
        "../secret.jsonl", "..%2fsecret.jsonl", "%2e%2e/secret.jsonl", "%2e%2e%2fsecret.jsonl", "..%5csecret.jsonl",
        "....//secret.jsonl", "%252e%252e%252fsecret.jsonl", "/etc/passwd", "first/secret.txt", "static/page.css",
        "first/events.jsonl%00", "updates/../../secret.jsonl",
    ],
)  # fmt: skip
def test_no_path_leads_to_a_file(server: Server, path: str) -> None:
    answer = server.get(f"/{TOKEN}/{path}")
    assert answer.status in (400, 403, 404) and b"outside" not in answer.body and b"served" not in answer.body


@pytest.mark.parametrize("run", ["../secret", "..", "first", "/etc", "%00", "a" * 2000, "%ff", ""])
def test_no_run_is_named_by_a_path(server: Server, run: str) -> None:
    assert server.updates(f"{run}:0:")["parts"] == {}
    assert server.get(f"/{TOKEN}/histograms?run={run}&name=x").status == 404


@pytest.mark.parametrize("position", ["-1", "99999999999", "x", "", "1e3", "²", "9" * 400])
def test_damaged_positions_read_from_the_start(server: Server, position: str) -> None:
    from urllib.parse import quote

    identity = next(run["id"] for run in server.updates()["runs"] if run["name"] == "first")
    part = server.updates(f"{identity}:{quote(position)}:")["parts"][identity]
    assert [record["kind"] for record in part["records"]] == ["start", "values"]


def test_damage_and_absence_are_facts_of_an_answer(server: Server) -> None:
    folder = server.runs / "damaged"
    folder.mkdir()
    (folder / EVENTS).write_bytes(encoded(START) + b"\x00\xff damage \n" + encoded(values(30, loss=1.0)))
    identity = next(run["id"] for run in server.updates()["runs"] if run["name"] == "damaged")
    part = server.updates(f"{identity}:0:")["parts"][identity]
    assert part["damaged"] == 1 and [record["step"] for record in part["records"]] == [10, 30]
    (folder / EVENTS).unlink()
    assert identity not in {run["id"] for run in server.updates(f"{identity}:0:")["runs"]}


def test_the_command_serves_and_says_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [sys.executable, "-m", "wyrm", "watch", os.fspath(tmp_path), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        address = running.stdout.readline().split()[0]
        _, _, place, token, _ = address.split("/")
        port = int(place.rpartition(":")[2])
        answer = Server(port, tmp_path).get(f"/{token}/updates")
        assert json.loads(answer.body)["runs"] == [] and len(token) == 32
        kept = tmp_path / "state" / "wyrm" / "watch-token"
        assert kept.read_text() == token and kept.stat().st_mode & 0o777 == 0o600
        with pytest.raises(OptionError, match=f"port {port} is in use, perhaps by another"):
            wy.watch.serve([tmp_path], port=port, token="x")
        running.send_signal(2)
        assert running.wait(20) == 0
        # The token is in no log.
        assert token not in running.stderr.read() + running.stdout.read()


def test_the_token_is_that_of_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = tmp_path / "wyrm" / "watch-token"
    token = own_token()
    if not kept.exists():
        pytest.skip("this system keeps the state of users elsewhere")
    assert own_token() == token
    kept.chmod(0o644)
    assert own_token() != token  # others could have read it
    kept.write_text("short")
    assert len(own_token()) == 32
    kept.unlink()
    (tmp_path / "elsewhere").write_text("a" * 32)
    kept.symlink_to(tmp_path / "elsewhere")
    assert own_token() != "a" * 32
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert len(own_token()) == 32


def test_options_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot listen on port 70000"):
        wy.watch.serve([tmp_path], port=70_000, token="x")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OptionError, match="is in use"):
        wy.watch.serve([tmp_path], port=taken.getsockname()[1], token="x")
