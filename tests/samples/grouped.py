"""Groups of samples, for tests that compile: a function of many operations takes less time than many functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.samples import SAMPLES
from tests.samples.sample import Sample


def grouped(
    size: int,
    keep: Callable[[Sample], bool] = lambda sample: True,
    apart: Callable[[Sample], bool] = lambda sample: False,
) -> pytest.MarkDecorator:
    """Run a test on groups of at most `size` of the samples for which `keep` is true; those `apart` have their own."""
    kept = [sample for sample in SAMPLES if keep(sample)]
    assert kept
    rooms = [sample for sample in kept if not apart(sample)], [sample for sample in kept if apart(sample)]
    parts = [room[start : start + size] for room in rooms for start in range(0, len(room), size)]
    return pytest.mark.parametrize("samples", parts, ids=[f"from_{part[0]}" for part in parts])
