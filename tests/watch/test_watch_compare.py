"""Many runs: their table with options and best values, the scatter, files of charts, and links to a selection."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wyrm as wy
from tests.browser import OpenPage
from tests.watch.test_watch_files import PLACE, START, records, values
from tests.watch.test_watch_page import Served, served, write
from wyrm.errors import DTypeError, OptionError
from wyrm.watch.config import checked_config
from wyrm.watch.records import EVENTS, Lines, encoded, is_written
from wyrm.watch.runs import Runs
from wyrm.watch.server import Summaries

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["served"]

END = {**PLACE, "kind": "end", "stopped": "completed"}


class Batch(wy.Dim): ...


def summaries(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the summaries of the runs in a folder by name."""
    runs = Runs([folder])()
    found, more = Summaries()(runs.values(), 0)
    assert not more
    return {run.name: found[run.identity] for run in runs.values()}


def test_runs_are_found_at_any_depth(tmp_path: Path) -> None:
    for path in ("one", "sweep/two", "sweep/deep/er/three"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / EVENTS).write_bytes(encoded(START))
    (tmp_path / "one" / "inside").mkdir()
    (tmp_path / "one" / "inside" / EVENTS).write_bytes(encoded(START))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / EVENTS).write_bytes(encoded(START))
    assert sorted(run.name for run in Runs([tmp_path])().values()) == ["one", "sweep/deep/er/three", "sweep/two"]
    assert [run.name for run in Runs([tmp_path / "sweep" / "two"])().values()] == ["two"]


def test_a_summary_has_the_options_and_the_best_values(tmp_path: Path) -> None:
    write(
        tmp_path / "run", START | {"config": {"hidden": 8}}, values(1, loss=3.0, accuracy=0.5),
        values(2, loss=1.0, accuracy=0.75), values(3, loss=2.0, accuracy=float("nan")), END | {"step": 3},
    )  # fmt: skip
    found = summaries(tmp_path)["run"]
    assert found["config"] == {"hidden": 8, "engine": "native"} and found["stopped"] == "completed"
    assert found["best"] == {"loss": 1.0, "accuracy": 0.75} and found["scores"] == ["accuracy"]
    assert found["last"] == {"loss": 2.0, "accuracy": None} and found["step"] == 3


def test_a_summary_forgets_what_a_later_start_makes_void(tmp_path: Path) -> None:
    start = START | {"step": 0}
    write(tmp_path / "run", start, values(1, loss=5.0), values(2, loss=0.1), values(3, loss=0.2))
    runs, read = Runs([tmp_path]), Summaries()
    ((first, _), revision) = read(runs().values(), 0), read.revision
    assert [found["best"]["loss"] for found in first.values()] == [0.1]
    with (tmp_path / "run" / EVENTS).open("ab") as file:
        file.write(encoded(start | {"step": 1}) + encoded(values(2, loss=4.0)))
    second, _ = read(runs().values(), revision)
    assert [found["best"]["loss"] for found in second.values()] == [4.0]
    assert read(runs().values(), read.revision) == ({}, False)


def test_many_runs_are_read_in_several_answers(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / name, START, values(1, loss=1.0))
    read, runs, found = Summaries(seconds=0.0), Runs([tmp_path])().values(), 0
    more = True
    while more:
        before = found
        changed, more = read(runs, 0)
        found = len(changed)
        assert found > before or not more
    assert found == 3


def test_a_process_that_writes_is_known(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    lines = Lines(tmp_path / EVENTS)
    assert is_written(tmp_path / EVENTS) is True
    lines.close()
    assert is_written(tmp_path / EVENTS) is False and is_written(tmp_path / "absent") is None
    Lines(tmp_path / EVENTS).close()


def test_fit_records_the_options_of_a_training(tmp_path: Path) -> None:
    x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(0.0)
    program = wy.compile((slope * x - 1.0).square().mean(), wy.optim.Adam([slope], 0.01))
    given: dict[str, Any] = {"hidden": np.int64(64), "data": Path("films.csv"), "model": {"sizes": (3, 4)}}
    wy.train.fit(program, {x: np.ones(8)}, epochs=1, batch_size=4, watch=tmp_path, config=given)
    assert records(tmp_path)[0]["config"] == {
        "batch_size": 4, "optimizer": "Adam", "learning_rate": 0.01, "hidden": 64, "data": "films.csv",
        "model.sizes": "3, 4",
    }  # fmt: skip
    schedule = wy.optim.schedules.Cosine(0.1, steps=100)
    program = wy.compile((slope * x - 1.0).square().mean(), wy.optim.SGD([slope], schedule))
    wy.train.fit(program, {x: np.ones(8)}, epochs=1, watch=tmp_path / "scheduled")
    assert records(tmp_path / "scheduled")[0]["config"]["learning_rate"] == "Cosine(start=0.1, steps=100, end=0.0)"
    with pytest.raises(OptionError, match="config is recorded with a run: give watch=True"):
        wy.train.fit(program, {x: np.ones(8)}, epochs=1, config=given)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([1], "config must be a dict from names to values"), (wy.nn.Linear(2, 2), r"give vars\(\.\.\.\) of it"),
        ({1: 2}, "the name of an option in config must be text, not 1"),
        ({"model": {"layer": object()}}, "the option 'model.layer' in config must be a number, text, True"),
        ({str(i): i for i in range(1001)}, "config has 1,001 options"),
    ],
)  # fmt: skip
def test_options_that_no_table_shows_are_refused_before_a_folder_is_created(
    tmp_path: Path, config: Any, message: str
) -> None:
    with pytest.raises((DTypeError, OptionError), match=message):
        wy.watch.RunWriter(tmp_path / "run", config=config)
    with pytest.raises((DTypeError, OptionError), match=message):
        wy.watch.RunLogger(tmp_path / "run", config=config)
    assert not list(tmp_path.iterdir())


def test_numbers_of_options_are_json(tmp_path: Path) -> None:
    odd = {"rate": float("inf"), "seed": 2**70, "none": None, "flag": True}
    assert checked_config(odd) == {"rate": "inf", "seed": str(2**70), "none": None, "flag": True}
    wy.watch.RunWriter(tmp_path, config=odd, tensorboard=False).close()
    assert records(tmp_path)[0]["config"]["rate"] == "inf"


# --- the page ---------------------------------------------------------------------------------------------------------


def sweep(folder: Path) -> None:
    """Write six runs: two optimizers, three learning rates."""
    for number, (optimizer, rate) in enumerate((o, r) for o in ("SGD", "Adam") for r in (0.01, 0.1, 1.0)):
        loss = (0.5 if optimizer == "Adam" else 0.8) + abs(rate - 0.1)
        start = START | {"time": number, "config": {"seed": 1, "optimizer": optimizer, "learning_rate": rate}}
        steps = (values(step, loss=loss + 1.0 / step, accuracy=1.0 - loss / 3) for step in range(1, 20))
        write(folder / f"run{number}", start, *steps, END)


def names(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("table.runs tbody th").all_inner_texts()]


def shown(page: Page) -> set[str]:
    boxes = page.locator("table.runs tbody input")
    return {boxes.nth(i).get_attribute("aria-label") or "" for i in range(boxes.count()) if boxes.nth(i).is_checked()}


def test_the_table_sorts_filters_and_shows_runs(served: Served, open_page: OpenPage) -> None:
    sweep(served.runs)
    page = open_page(served.address)
    page.get_by_role("group", name="Loss").wait_for()
    page.locator("table.runs .best").first.wait_for()
    heads = [text.rstrip(" ↑↓") for text in page.locator("table.runs thead th").all_inner_texts()]
    assert heads == ["", "Run", "State", "optimizer", "learning_rate", "lowest loss", "highest accuracy"]
    best = page.locator("table.runs tr", has=page.locator(".best"))
    assert best.locator("th").inner_text() == "run4" and page.locator(".best").count() == 2
    assert names(page) == [f"run{i}" for i in range(6)] and shown(page) == {f"run{i}" for i in range(2, 6)}
    assert page.locator("#unlisted").inner_text() == "4 of 6 runs are drawn: tick others."
    page.get_by_role("button", name="lowest loss", exact=True).press("Enter")
    assert names(page) == ["run4", "run3", "run1", "run0", "run5", "run2"]
    assert page.locator("table.runs th[aria-sort=ascending]").inner_text() == "lowest loss ↑"
    page.get_by_role("button", name="highest accuracy", exact=True).press("Enter")  # the best first: the highest
    assert names(page)[0] == "run4"
    filtering = page.get_by_role("searchbox", name="Filter runs")
    filtering.fill("optimizer=sgd learning_rate<=0.1")
    assert names(page) == ["run1", "run0"] and page.locator("#runs li").count() == 2
    page.get_by_role("checkbox", name="Show all runs of the table").press("Space")
    filtering.fill("")
    assert shown(page) == {f"run{i}" for i in range(6)}
    filtering.fill("momentum>1 run3")
    assert page.get_by_text('No run has "momentum".').is_visible() and names(page) == ["run3"]


def test_a_value_against_an_option(served: Served, open_page: OpenPage) -> None:
    sweep(served.runs)
    page = open_page(served.address)
    page.locator("table.runs .best").first.wait_for()
    page.locator("summary", has_text="A value against").press("Enter")
    assert page.get_by_label("Option", exact=True).input_value() == "optimizer"  # the first in which runs differ
    page.get_by_label("Option", exact=True).select_option("learning_rate")
    page.get_by_label("Value", exact=True).select_option("loss")
    dots = page.locator(".scatter circle")
    assert dots.count() == 6
    spot = page.get_by_role("button", name="run0: learning_rate 0.01, loss 0.9426")
    assert spot.get_attribute("aria-pressed") == "false"
    spot.press("Enter")
    page.get_by_role("button", name="run0: learning_rate", pressed=True).wait_for()
    assert "run0" in shown(page)


def test_a_link_shows_the_same_selection(served: Served, open_page: OpenPage) -> None:
    sweep(served.runs)
    page = open_page(served.address)
    page.get_by_role("group", name="Loss").wait_for()
    for name in ("run2", "run3"):
        page.locator("table.runs").get_by_role("checkbox", name=name).press("Space")
    page.get_by_role("button", name="Epoch").press("Enter")
    page.get_by_role("button", name="Log scale").press("Enter")
    page.get_by_role("slider", name="Smoothing").fill("0.5")
    page.get_by_role("button", name="lowest loss", exact=True).press("Enter")
    page.get_by_role("searchbox", name="Filter runs").fill("loss<0.9")
    page.locator("summary", has_text="A value against").press("Enter")
    page.get_by_label("Option", exact=True).select_option("learning_rate")
    other = open_page(page.url)
    other.locator(".scatter circle").first.wait_for()
    assert names(other) == names(page) == ["run4", "run3", "run1"]
    other.get_by_role("searchbox", name="Filter runs").fill("")
    assert shown(other) == {"run4", "run5"}
    assert other.get_by_role("button", name="Epoch").get_attribute("aria-pressed") == "true"
    assert other.get_by_role("button", name="Log scale").get_attribute("aria-pressed") == "true"
    assert other.locator("#smoothing-value").inner_text() == "0.50"
    assert other.get_by_label("Option", exact=True).input_value() == "learning_rate"
    # A damaged link is that of a first visit, or of no run.
    third = open_page(served.address + "#runs=unknown&axis=nonsense&smoothing=7&sort=-nothing")
    third.locator("table.runs tbody tr").first.wait_for()
    assert shown(third) == set() and third.locator("#smoothing-value").inner_text() == "0.00"


def test_charts_are_saved_as_csv_and_png(served: Served, open_page: OpenPage, tmp_path: Path) -> None:
    write(served.runs / "run, one", START, *(values(step, loss=1.0 / step) for step in range(1, 5)))
    page = open_page(served.address)
    page.get_by_role("group", name="Loss").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Loss as CSV").press("Enter")
    rows = list(csv.reader(io.StringIO(download.value.path().read_text())))
    assert rows[0] == ["run", "kind", "step", "epoch", "seconds", "value", "low", "high"]
    assert rows[2] == ["run, one", "training", "2", "1", "0.5", "0.5", "0.5", "0.5"] and len(rows) == 5
    with page.expect_download() as download:
        page.get_by_role("button", name="Loss as PNG").press("Enter")
    from PIL import Image

    picture = Image.open(download.value.path())
    assert download.value.suggested_filename == "Loss.png"
    assert picture.width > 400 and len(np.unique(np.asarray(picture.convert("L")))) > 20


def test_many_lines_have_a_short_legend_and_few_points(served: Served, open_page: OpenPage) -> None:
    for number in range(30):
        points = (values(step, loss=number + 1.0 / step) for step in range(1, 1001))
        write(served.runs / f"run{number:02d}", START | {"time": number}, *points)
    page = open_page(f"{served.address}#runs=all")
    page.get_by_text("and 14 more lines").wait_for()
    assert page.locator(".legend tbody tr").count() == 16
    # 30,000 points are thinned to two at each of 400 places.
    assert page.evaluate("() => document.querySelectorAll('.u-cursor-pt').length") == 0
    box = page.locator(".u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 60)
    first = page.locator(".legend tbody tr").first.inner_text()
    assert 490 < int(page.locator(".chart .at").first.inner_text().removeprefix("step ")) < 510 and "0.00" in first


# --- findings ---------------------------------------------------------------------------------------------------------


def modules(step: int, **fields: Any) -> dict[str, Any]:
    usual = {"weights": [1.0], "gradients": [0.5], "updates": [0.001], "rows": 8, "over": 1, "dead": {}}
    return {**PLACE, "kind": "modules", "step": step, **usual, **fields}


@pytest.mark.parametrize(
    ("shown_records", "text", "advice"),
    [
        ([modules(9, dead={"relu at a.py:1": [256, 256]})], "256 of 256 units are dead: relu at a.py:1", "leaky_relu"),
        ([modules(9, gradients=[0.0])], "The gradient of layer is zero at step 9", "depends on it"),
        ([*(modules(i) for i in range(1, 5)), modules(9, gradients=[800.0])], "explodes: its norm is 800", "max_norm"),
        ([modules(9, gradients=["NaN"])], "The gradient of layer explodes: its norm is NaN", "max_norm"),
        ([modules(9, updates=[3.0], over=10)], "layer changes by 30 % of its norm in a step", "Lower the learning"),
        ([modules(9, updates=[0.0], over=10)], "layer hardly moves: not at all in 10 steps", "Raise the learning rate"),
        ([values(9, loss=float("nan"))], "loss is NaN at step 9", "Lower the learning rate"),
        (
            [values(i, loss=1 / i, validation_loss=1.0 + 0.1 * abs(i - 4)) for i in range(1, 12)],
            "The validation loss was 1 at epoch 1 and is 1.6", "EarlyStopping",
        ),
        (
            [values(i, loss=2.0 * i, validation_loss=1.0 + 0.1 * abs(i - 4)) for i in range(1, 12)],
            "The validation loss was 1 at epoch 1 and is 1.6", "not overfitting. Lower the learning rate",
        ),
    ],
)  # fmt: skip
def test_findings_say_what_is_wrong_and_what_to_do(
    served: Served, open_page: OpenPage, shown_records: list[dict[str, Any]], text: str, advice: str
) -> None:
    write(served.runs / "run", START, values(1, loss=2.0), *shown_records)
    page = open_page(served.address)
    page.get_by_role("heading", name="Findings").wait_for()
    (finding,) = page.locator(".findings li").all_inner_texts()
    assert text in finding and advice in finding


def test_a_training_without_faults_has_no_findings(served: Served, open_page: OpenPage) -> None:
    falling = (values(i, loss=1 / i, validation_loss=1 / i + 0.1) for i in range(1, 12))
    write(served.runs / "run", START, *falling, *(modules(i) for i in range(1, 5)))
    page = open_page(served.address)
    page.get_by_role("row", name="layer").wait_for()
    assert page.get_by_role("heading", name="Findings").is_hidden()


def test_a_short_training_is_measured_once(tmp_path: Path) -> None:
    x, weight = wy.Input(dims=(Batch(), 2), name="x"), wy.nn.Linear(2, 3)
    assert weight.bias is not None
    weight.bias.set(np.full(3, -100.0))
    program = wy.compile(weight(x).relu().mean(), wy.optim.SGD(weight.parameters(), 0.1))
    data = {x: np.ones((8, 2))}
    program.epoch(data, batch_size=4)
    wy.train.fit(program, data, epochs=2, batch_size=4, watch=tmp_path)
    last = [record for record in records(tmp_path) if record["kind"] == "modules"][-1]
    assert list(last["dead"].values()) == [[3, 3]] and last["gradients"] is not None
