"""Groups of samples, for tests that compile: a function of many operations takes less time than many functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.each import groups_of
from tests.samples import SAMPLES
from tests.samples.sample import Sample


def grouped(
    size: int,
    keep: Callable[[Sample], bool] = lambda sample: True,
    apart: Callable[[Sample], bool] = lambda sample: False,
) -> pytest.MarkDecorator:
    """Run a test on groups of at most `size` of the samples for which `keep` is true; those `apart` have their own.

    Groups of the first sample of each op come first; those of further samples are exhaustive.
    """
    kept = [sample for sample in SAMPLES if keep(sample)]
    assert kept
    first = {sample.op: sample for sample in reversed(kept)}
    rooms: dict[tuple[bool, bool], list[Sample]] = {}
    for sample in kept:
        rooms.setdefault((first[sample.op] is not sample, apart(sample)), []).append(sample)
    parts = [
        pytest.param(group, id=f"from_{group[0]}", marks=[pytest.mark.exhaustive] * is_further)
        for (is_further, _), room in sorted(rooms.items(), key=lambda item: item[0])
        for group in groups_of(room, size)
    ]
    return pytest.mark.parametrize("samples", parts)
