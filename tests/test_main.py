"""`python -m wyrm`: what it prints without a command, and versions."""

from __future__ import annotations

import importlib
import re
import sys

import numpy as np
import pytest

import wyrm as wy
from wyrm.__main__ import main


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what the command prints."""
    monkeypatch.setattr(sys, "argv", ["wyrm", *arguments])
    main()
    return capsys.readouterr().out


def test_without_a_command_it_prints_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(monkeypatch, capsys)
    assert "watch" in text and "cache" in text and "--version" in text
    named = re.findall(r"wyrm\.([a-z]+)", text)
    assert len(named) > 10
    for name in named:
        importlib.import_module(f"wyrm.{name}")


def test_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(monkeypatch, capsys, "--version").splitlines()
    assert lines[0] == f"wyrm {wy.__version__}" and lines[1].startswith("Python 3")
    assert f"numpy {np.__version__}" in lines
