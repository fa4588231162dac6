"""A case whose peers are missing, stuck, or end the process, for the tests of the harness."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from bench.harness import Case, Measurement


def _answering(seconds: float) -> Callable[[], Callable[[], Measurement]]:
    return lambda: lambda: Measurement(seconds)


def _missing() -> Callable[[], Measurement]:
    raise ImportError(name="nowhere")


def _stuck() -> Callable[[], Measurement]:
    time.sleep(1000.0)
    raise AssertionError


def _ended() -> Callable[[], Measurement]:
    os._exit(3)


def _of_the_library() -> Callable[[], Measurement]:
    """Return a time that tells which library this process imports."""
    import wyrm

    return lambda: Measurement(0.9 if "wyrm-before-" in wyrm.__path__[0] else 1.0)


def cases() -> list[Case]:
    """One case with such peers, and one without peers."""
    contenders = {
        "wyrm": _answering(0.5), "quick peer": _answering(1.0), "missing peer": _missing, "ended peer": _ended,
        "stuck peer": _stuck,
    }  # fmt: skip
    return [
        Case("stuck", "a case", contenders, rounds=3),
        Case("stuck", "alone", {"wyrm": _of_the_library}, rounds=2),
    ]
