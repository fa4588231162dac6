"""Lines that the library says on its own: where they go, and what turns them off."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from wyrm.support.notices import is_silent, say

PROGRAM = """
import sys
from wyrm.support.notices import is_silent, say

told = [is_silent()]  # without an import of logging
say("nothing is configured")
import logging
logger = logging.getLogger("wyrm")
for change, back in [
    (lambda: logger.setLevel("ERROR"), lambda: logger.setLevel("NOTSET")),
    (lambda: logging.disable(), lambda: logging.disable("NOTSET")),
    (lambda: logging.basicConfig(level="ERROR"), lambda: logging.getLogger().setLevel("INFO")),
]:
    change()
    say("nobody reads this")
    told.append(is_silent())
    back()
say("configured")
print(*told, is_silent())
"""


def test_a_line_goes_where_the_messages_of_a_program_go() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stderr == "wyrm: nothing is configured\nWARNING:wyrm:wyrm: configured\n"
    assert done.stdout == "False True True True False\n"


def test_a_line_is_a_record_of_one_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.getLogger("wyrm"), "handle", records.append)
    say("compiling 100 % of it")
    (record,) = records
    assert (record.name, record.levelname, record.getMessage()) == ("wyrm", "WARNING", "wyrm: compiling 100 % of it")
    assert not is_silent()
