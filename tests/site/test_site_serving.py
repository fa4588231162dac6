"""The server of the page on serving answers eight threads at once, over HTTP."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.site.pages import DOCS, run

uvicorn = pytest.importorskip("uvicorn", reason="the page's server is one of uvicorn and starlette")
pytest.importorskip("starlette", reason="the page's server is one of uvicorn and starlette")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the address of the page's server, and the page's variables."""
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {"__name__": "page"}
    run(DOCS / "how-to" / "serve.md", variables)
    server = uvicorn.Server(uvicorn.Config(variables["app"], port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", variables
    server.should_exit = True
    thread.join()


def post(address: str, data: Any) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, json.dumps(data).encode())) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_eight_threads_ask_at_once(page: tuple[str, dict[str, Any]]) -> None:
    address, variables = page
    predict, x = variables["predict"], variables["x"]
    random = np.random.default_rng(0)
    every = [random.normal(size=(1 + count % 7, 4)).astype(np.float32) for count in range(80)]
    wrong = [[[1.0, 2.0]], [[1.0, 2.0, 3.0, float("nan")]], [["a", 2, 3, 4]], 1.0]

    def ask(number: int) -> None:
        for rows in every[number::8]:
            status, scores = post(f"{address}/classify", rows.tolist())
            assert status == 200 and np.array_equal(np.float32(scores), predict({x: rows}))
            status, answer = post(f"{address}/classify", wrong[number % len(wrong)])
            assert status == 422 and answer["error"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))


def test_requests_of_one_row_are_gathered(page: tuple[str, dict[str, Any]]) -> None:
    address, variables = page
    predict, x = variables["predict"], variables["x"]
    batches: list[int] = []

    def counted(feed: Any) -> Any:
        batches.append(len(feed[x]))
        return predict(feed)

    variables["predict"] = counted
    variables["gathered"].seconds = 0.05  # for machines that do other work meanwhile
    rows = np.random.default_rng(1).normal(size=(64, 4)).astype(np.float32)

    def ask(number: int) -> None:
        for row in rows[number::8]:
            status, scores = post(f"{address}/classify_one", row.tolist())
            assert status == 200
            np.testing.assert_allclose(scores, predict({x: row[None]})[0], rtol=1e-6)
            assert post(f"{address}/classify_one", [1.0, 2.0])[0] == 422

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert sum(batches) == 64 and max(batches) > 1
