"""A client of language servers, which are what an editor asks for hover texts, completion and signatures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.typing.checkers import ROOT

# How each server is started; all of them are checkers of the corpus too.
SERVERS = {
    "pyright": ("pyright-langserver", "--stdio"),
    "ty": ("ty", "server"),
    "pyrefly": ("pyrefly", "lsp"),
}


class Signature(NamedTuple):
    """What an editor shows of a name: the signature, and the text below it."""

    text: str
    docstring: str


class LanguageServer:
    """One server with one file, whose text each question gives."""

    def __init__(self, name: str, folder: Path) -> None:
        environment = ["[environment]", f'extra-paths = ["{ROOT}"]', f'python = "{sys.prefix}"']
        (folder / "ty.toml").write_text("\n".join(environment), encoding="utf-8")
        (folder / "pyrefly.toml").write_text(
            f'search-path = ["{ROOT}"]\npython-interpreter-path = "{sys.executable}"\n', encoding="utf-8"
        )
        (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}), encoding="utf-8")
        self._file = (folder / "program.py").as_uri()
        self._asked = self._version = 0
        command, *arguments = SERVERS[name]
        self._process = subprocess.Popen(
            [Path(sys.executable).with_name(command), *arguments],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        uri = folder.as_uri()
        document = {"hover": {"contentFormat": ["markdown"]}, "completion": {}, "definition": {}}
        self._ask(
            "initialize",
            {
                "processId": None,
                "rootUri": uri,
                "workspaceFolders": [{"uri": uri, "name": "program"}],
                "capabilities": {"textDocument": document, "workspace": {"workspaceFolders": True}},
            },
        )
        self._tell("initialized", {})
        self._tell("textDocument/didOpen", {"textDocument": {**self._document(), "languageId": "python", "text": ""}})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def hover(self, source: str) -> Signature:
        """Return what is shown of the last name of a text."""
        found = self._ask_about("hover", source, behind=-1)
        contents = "" if found is None else found["contents"]
        text, _, docstring = (contents if isinstance(contents, str) else contents["value"]).partition("\n---\n")
        return Signature("\n".join(line for line in text.splitlines() if not line.startswith("```")), docstring)

    def completions(self, source: str) -> list[str]:
        """Return the public names that may follow a text."""
        found = self._ask_about("completion", source)
        items = found["items"] if isinstance(found, dict) else found or []
        return [item["label"] for item in items if not item["label"].startswith("_")]

    def definitions(self, source: str) -> list[str]:
        """Return the files, relative to the project's folder, where the last name of a text is defined."""
        found = self._ask_about("definition", source, behind=-1) or []
        places = [place["uri"] for place in (found if isinstance(found, Sequence) else [found])]
        return list(dict.fromkeys(place.removeprefix(f"{ROOT.as_uri()}/") for place in places))

    def _ask_about(self, what: str, source: str, behind: int = 0) -> Any:
        lines = source.split("\n")
        self._version += 1
        self._tell("textDocument/didChange", {"textDocument": self._document(), "contentChanges": [{"text": source}]})
        position = {"line": len(lines) - 1, "character": len(lines[-1]) + behind}
        return self._ask(f"textDocument/{what}", {"textDocument": self._document(), "position": position})

    def _document(self) -> dict[str, object]:
        return {"uri": self._file, "version": self._version}

    def _ask(self, method: str, parameters: object) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": parameters})
        while (answer := self._received()).get("id") != self._asked or "method" in answer:
            if "method" in answer and "id" in answer:  # the server's own questions, such as for its configuration
                self._send({"id": answer["id"], "result": None})
        assert "error" not in answer, answer
        return answer["result"]

    def _tell(self, method: str, parameters: object) -> None:
        self._send({"method": method, "params": parameters})

    def _send(self, message: dict[str, object]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self._process.stdin.flush()

    def _received(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        assert size, "the server has ended"
        message: dict[str, Any] = json.loads(self._process.stdout.read(size))
        return message
