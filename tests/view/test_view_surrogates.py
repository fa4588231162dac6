"""Names that UTF-8 cannot hold, as of columns read from a file in another encoding: texts and pages show escapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy

NAME = "caf\udce9"
SHOWN = r"caf\udce9"


class Batch(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self) -> None:
        setattr(self, NAME, wy.nn.Linear(3, 1))

    def __call__(self, x: wy.Tensor[Any, Any]) -> wy.Tensor[Any, Any]:
        layer: wy.nn.Linear[Any, Any] = getattr(self, NAME)
        return layer(x)


class Case:
    """A loss whose input, parameter, module and file have such names, and its program."""

    def __init__(self) -> None:
        self.model, self.x = Model(), wy.Input(dims=(Batch(), 3), name=NAME)
        self.parameter = wy.Parameter(np.ones(3, np.float32), name=NAME)
        names: dict[str, Any] = {}
        exec(compile("def product(x, y):\n    return (x * y).sum()", f"/{NAME}.py", "exec"), names)
        self.loss: wy.Node[Any, Any] = names["product"](self.x, self.parameter) + self.model(self.x).sum()
        self.program = wy.compile(self.loss, wy.optim.SGD(self.loss.parameters(), 0.1))


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


@pytest.mark.parametrize(
    "show",
    [
        lambda case: repr(case.x), lambda case: repr(case.model), lambda case: wy.view.to_text(case.loss),
        lambda case: wy.view.to_dot(case.loss).replace("\\\\", "\\"), lambda case: wy.view.to_derivation(case.loss),
        lambda case: wy.summary(case.model, case.x), lambda case: wy.summary(case.loss),
    ],
)  # fmt: skip
def test_texts_can_be_encoded(case: Case, show: Callable[[Case], object]) -> None:
    text = str(show(case))
    assert SHOWN in text and text.encode()


def test_an_error_names_them(case: Case) -> None:
    with pytest.raises(wy.errors.ShapeError) as caught:
        case.parameter + wy.Parameter(np.ones(4, np.float32))
    assert SHOWN in str(caught.value) and str(caught.value).encode()


def test_notebooks_can_display_them(case: Case) -> None:
    values: list[Any] = [case.x, case.loss, case.model, case.program, wy.view.to_derivation(case.loss)]
    for value in (*values, wy.summary(case.model, case.x)):
        for text in value._repr_mimebundle_().values():
            assert text.encode()
    assert SHOWN in case.x._repr_mimebundle_()["text/html"]


def test_pages_can_be_written(case: Case, tmp_path: Path) -> None:
    for shown in (case.loss, case.program):
        assert wy.view.page(shown, tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<title>{SHOWN}" in wy.view.page(case.x, tmp_path / "leaf.html").read_text(encoding="utf-8")


def test_profiles_can_be_shown(case: Case, tmp_path: Path) -> None:
    columns = {case.x: np.ones((8, 3), np.float32)}
    peaks = wy.profile.Peaks((1e11, 2e11), (5e10, 1e11), (1e10, 2e10), ((2e5, 1e11, 2e11),), threads=2)
    profile = case.program.profile(columns, batch_size=4, memory=True, peaks=peaks)
    assert SHOWN in str(profile) and str(profile).encode()
    assert all(text.encode() for text in profile._repr_mimebundle_().values())
    page = profile.page(tmp_path / "profile.html", title=NAME)
    assert f"<title>{SHOWN}" in page.read_text(encoding="utf-8")
    assert profile.chrome_trace(tmp_path / "trace.json").read_text(encoding="utf-8")
