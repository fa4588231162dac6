"""Lines that the library says on its own: where they go, and what turns them off."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from wyrm.support.notices import is_silent, say


@pytest.mark.parametrize(
    ("configured", "stderr"),
    [
        ("", "wyrm: compiling\n"),
        ("logging.basicConfig()", "WARNING:wyrm:wyrm: compiling\n"),
        ("logging.basicConfig(level='ERROR')", ""),
        ("logging.getLogger('wyrm').setLevel('ERROR')", ""),
        ("logging.disable()", ""),
    ],
)
def test_a_line_goes_where_the_messages_of_a_program_go(configured: str, stderr: str) -> None:
    program = f"import logging\nfrom wyrm.support.notices import say\n{configured}\nsay('compiling')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", stderr)


def test_a_line_is_a_record_of_one_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.getLogger("wyrm"), "handle", records.append)
    say("compiling 100 % of it")
    (record,) = records
    assert (record.name, record.levelname, record.getMessage()) == ("wyrm", "WARNING", "wyrm: compiling 100 % of it")
    assert not is_silent()


def test_an_import_does_not_need_logging() -> None:
    program = "import sys, wyrm.support.notices as notices\nprint(notices.is_silent(), 'logging' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert printed.startswith("False ")
