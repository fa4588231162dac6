"""The files of runs: lines that survive a kill, a full disk and damage, and what readers make of them."""

from __future__ import annotations

import codecs
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

import wyrm as wy
from wyrm.errors import DataError, OptionError
from wyrm.watch.records import EVENTS, HISTOGRAMS, Lines, decoded, encoded, number, read
from wyrm.watch.runs import Histograms, RunFolder, Runs, records_after

PLACE = {"time": 0, "elapsed": 0.5, "epoch": 1.0, "step": 10}
START = {
    **PLACE, "kind": "start", "format": 1, "id": "a", "name": "run", "engine": "native", "epochs": 3, "steps": None,
    "rows": None, "modules": ["layer"], "sizes": [4], "parameters": ["layer.weight"],
}  # fmt: skip


POINTS = {
    **PLACE, "kind": "points", "steps": [9, 10], "epochs": [0.5, 1.0], "seconds": [0.1, 0.2],
    "means": {"loss": [2.0, 1.0]}, "low": None, "high": None,
}  # fmt: skip


def values(step: int, **named: float) -> dict[str, Any]:
    return {**PLACE, "kind": "values", "step": step, "values": named}


def points(path: Path, name: str = "loss") -> list[dict[str, Any]]:
    """Return the points in the file of a run that have a value of this name, each with its values and their range."""
    return [
        {
            "step": record["steps"][i], "epoch": record["epochs"][i], "elapsed": record["seconds"][i],
            "values": {key: column[i] for key, column in record["means"].items()},
            "low": None if record["low"] is None else record["low"][name][i],
            "high": None if record["high"] is None else record["high"][name][i],
        }
        for record in records(path)
        if record["kind"] == "points" and name in record["means"]
        for i in range(len(record["steps"]))
    ]  # fmt: skip


def run_in(path: Path) -> RunFolder:
    (run,) = Runs([path])().values()
    return run


def records(path: Path) -> list[dict[str, Any]]:
    return list(read(path / EVENTS))


@pytest.mark.parametrize(
    ("column", "read"),
    [
        ([0.1, 1 / 3, 1e300, -2.5e-30], [0.1, 0.3333333, 1e300, -2.5e-30]),
        ([1.7e308, 1.7e308], [1.7e308, 1.7e308]),
        ([math.inf, -math.inf], [math.inf, -math.inf]),
        ([1.0, math.inf], [1.0, math.inf]),
        ([], []),
    ],
)
def test_columns_of_points_are_read_as_they_were(column: list[float], read: list[float]) -> None:
    fields = {"steps": list(range(len(column))), "epochs": column, "seconds": column, "means": {"loss": column}}
    line = json.loads(encoded({"kind": "points", **fields}))
    assert line["steps"] == fields["steps"] and [number(value) for value in line["means"]["loss"]] == read


def test_numbers_that_json_lacks_survive() -> None:
    record = decoded(encoded(values(1, a=math.nan, b=math.inf, c=-math.inf, d=1e-30)))
    assert record is not None
    numbers = [number(value) for value in record["values"].values()]
    assert math.isnan(numbers[0]) and numbers[1:] == [math.inf, -math.inf, 1e-30]


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b"\0" * 100,
        codecs.BOM_UTF8 + encoded(values(1)), *(
            json.dumps(values(1)).encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
        ),
        json.dumps(values(1, name=1.0)).replace("name", "\udc80").encode("utf-8", "surrogatepass"),
        json.dumps(values(1, name=1.0)).replace("name", "\xe9").encode("latin-1"),
        json.dumps(values(10**14)).encode(), json.dumps(values(1) | {"time": "0"}).encode(),
        json.dumps(values(1) | {"values": {"loss": "1.0"}}).encode(), json.dumps(values(1) | {"values": []}).encode(),
        json.dumps(values(1, loss=1.5)).replace("1.5", "1e400").encode(),
        json.dumps(values(1, loss=1.5)).replace("1.5", "9" * 5000).encode(),
        json.dumps(START | {"parameters": [""] * 50_001}).encode(),
        json.dumps({**PLACE, "kind": "histograms", "weights": {"w": [0, 1, [0] * 1001, 0]}, "gradients": {}}).encode(),
        b'{"kind":"values"}', b'{"kind":"values","time":0,"elapsed":NaN,"epoch":0,"step":0,"values":{}}',
        json.dumps(values(1) | {"values": {"loss": {"markup": 1}}}).encode(),
        json.dumps(values(-1)).encode(), json.dumps(values(1) | {"step": True}).encode(),
        json.dumps(POINTS | {"steps": [1]}).encode(), json.dumps(POINTS | {"low": {"loss": [0.0, 0.0]}}).encode(),
        json.dumps(POINTS | {"means": {"loss": 1.0}}).encode(), json.dumps(POINTS | {"seconds": [0.0, "NaN"]}).encode(),
        json.dumps(values(1) | {"kind": ["values"]}).encode(), json.dumps(values(1) | {"elapsed": 1e308 * 10}).encode(),
    ],
)  # fmt: skip
def test_damaged_lines_are_no_records(damaged: bytes) -> None:
    assert decoded(damaged) is None


def test_names_and_numbers_at_the_edge_are_records() -> None:
    for line in (
        encoded(POINTS),
        encoded(values(1, **{"\udc80": 1.0})),
        json.dumps(values(10**14 - 1, loss=1.7e308)).encode(),
    ):
        assert decoded(line) is not None


def test_a_torn_line_is_removed_before_others_are_appended(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    path.write_bytes(encoded(START) + encoded(values(1, loss=2.0)) + b'{"kind":"values","time":17')
    assert [record["kind"] for record in read(path)] == ["start", "values"]
    lines = Lines(path)
    lines.write([values(2, loss=1.0)])
    lines.close()
    assert [record["step"] for record in read(path)] == [10, 1, 2]
    assert len(path.read_bytes().splitlines()) == 3


def test_a_file_of_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(b"x" * 200_000)
    Lines(tmp_path / EVENTS).close()
    assert (tmp_path / EVENTS).read_bytes() == b""


def test_a_full_disk_leaves_no_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, write = Lines(tmp_path / EVENTS), os.write
    lines.write([START])

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:50])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        lines.write([values(1, loss=1.0), values(2, loss=1.0)])
    monkeypatch.undo()
    lines.write([values(3, loss=1.0)])
    lines.close()
    assert [record["step"] for record in records(tmp_path)] == [10, 3]


def test_two_trainings_cannot_write_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        wy.watch.RunWriter(tmp_path, tensorboard=False),
        pytest.raises(DataError, match="another training writes"),
    ):
        wy.watch.RunWriter(tmp_path, tensorboard=False)
    wy.watch.RunWriter(tmp_path, tensorboard=False).close()


def test_a_folder_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot create the folder"):
        wy.watch.RunWriter(tmp_path / "file" / "run")
    (tmp_path / "run" / EVENTS).mkdir(parents=True)
    with pytest.raises(DataError, match="cannot"):
        wy.watch.RunWriter(tmp_path / "run")


def test_the_folder_of_several_runs_is_not_that_of_one(tmp_path: Path) -> None:
    wy.watch.RunWriter(tmp_path / "first", tensorboard=False).close()
    with pytest.raises(DataError, match="holds runs, such as 'first': give the path of a run's own folder"):
        wy.watch.RunWriter(tmp_path)


def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(encoded(START | {"format": 3}))
    with pytest.raises(OptionError, match="newer version"):
        wy.watch.RunWriter(tmp_path)
    assert records_after(run_in(tmp_path), 0, "").format == 3


def test_records_are_read_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    path.write_bytes(encoded(START) + b'{"kind":"val')
    run = run_in(tmp_path)
    first = records_after(run, 0, "")
    assert len(first.lines) == 1 and first.damaged == 0 and first.position == len(encoded(START))
    path.write_bytes(encoded(START) + b"damage\n" + encoded(values(1, loss=1.0)))
    second = records_after(run, first.position, first.version)
    assert [json.loads(line)["step"] for line in second.lines] == [1] and second.damaged == 1
    third = records_after(run, second.position, second.version)
    assert not third.lines and third.position == second.position == path.stat().st_size


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    path.write_bytes(encoded(START) + encoded(values(1, loss=1.0)))
    run = run_in(tmp_path)
    first = records_after(run, 0, "")
    path.write_bytes(encoded(START | {"id": "b"}) + encoded(values(5, loss=1.0)) * 3)
    second = records_after(run, first.position, first.version)
    assert second.version != first.version and len(second.lines) == 4
    path.write_bytes(encoded(START | {"id": "b"}))
    assert len(records_after(run, second.position, second.version).lines) == 1


def test_a_line_too_long_to_be_a_record_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.watch.runs._PART", 1000)
    path = tmp_path / EVENTS
    path.write_bytes(encoded(START) + b"y" * 2500 + b"\n" + encoded(values(1, loss=1.0)))
    run, position, version, damaged, steps = run_in(tmp_path), 0, "", 0, []
    more = True
    while more:
        part = records_after(run, position, version)
        more, position, version, damaged = part.more, part.position, part.version, damaged + part.damaged
        steps += [json.loads(line)["step"] for line in part.lines]
    assert steps == [10, 1] and damaged >= 1


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret, runs = tmp_path / "secret", tmp_path / "runs"
    (secret / "run").mkdir(parents=True)
    (secret / "run" / EVENTS).write_bytes(encoded(START))
    (runs / "honest").mkdir(parents=True)
    (runs / "honest" / EVENTS).write_bytes(encoded(START))
    (runs / "linked").symlink_to(secret / "run")
    (runs / "inside").mkdir()
    (runs / "inside" / EVENTS).symlink_to(secret / "run" / EVENTS)
    (runs / "pipe").mkdir()
    os.mkfifo(runs / "pipe" / EVENTS)
    assert [run.name for run in Runs([runs])().values()] == ["honest"]
    # A file that becomes a link after the list was made.
    run = run_in(runs)
    (runs / "honest" / EVENTS).unlink()
    (runs / "honest" / EVENTS).symlink_to(secret / "run" / EVENTS)
    with pytest.raises(OSError, match="link"):
        records_after(run, 0, "")
    (runs / "honest" / HISTOGRAMS).symlink_to(secret / "run" / EVENTS)
    with pytest.raises(OSError, match="link"):
        Histograms()(run, "layer.weight")


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent' is no folder: give the folder of a run"):
        Runs([tmp_path / "absent"])
    assert Runs([tmp_path])() == {}


def test_a_folder_in_place_of_a_file_is_not_left_open(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(encoded(START))
    (tmp_path / HISTOGRAMS).mkdir()
    run, descriptors = run_in(tmp_path), Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("this system does not list open files")
    before = len(list(descriptors.iterdir()))
    for _ in range(5):
        with pytest.raises(OSError, match="is no file"):
            Histograms()(run, "layer.weight")
    assert len(list(descriptors.iterdir())) == before


def test_only_files_that_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for time, name in enumerate(("c", "a", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / EVENTS).write_bytes(encoded(START | {"time": time}))
    runs, opened, open_file = Runs([tmp_path]), [], os.open

    def counted(path: Any, *options: Any) -> int:
        opened.append(Path(path).parent.name)
        return open_file(path, *options)

    monkeypatch.setattr(os, "open", counted)
    assert [run.name for run in runs().values()] == ["c", "a", "b"] and sorted(opened) == ["a", "b", "c"]
    (tmp_path / "c" / EVENTS).write_bytes(encoded(START | {"time": 70}))
    assert [run.name for run in runs().values()] == ["a", "b", "c"] and opened[3:] == ["c"]


def histograms(step: int) -> dict[str, Any]:
    bins = [0.0, 1.0, [step], 0]
    return {**PLACE, "kind": "histograms", "step": step, "weights": {"w": bins}, "gradients": {}}


def test_histograms_are_read_once_and_forgotten_from_a_restart_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / EVENTS).write_bytes(encoded(START))
    path, run, read_histograms = tmp_path / HISTOGRAMS, run_in(tmp_path), Histograms()
    lines: list[bytes] = []

    def noted(line: bytes) -> dict[str, Any] | None:
        lines.append(line)
        return decoded(line)

    def append(*records: dict[str, Any]) -> list[int]:
        lines.clear()
        with path.open("ab") as file:
            file.write(b"".join(map(encoded, records)))
        return [record["step"] for record in read_histograms(run, "w")]

    monkeypatch.setattr("wyrm.watch.runs.decoded", noted)
    assert append(START | {"step": 0}, histograms(1), histograms(5)) == [1, 5]
    assert append(histograms(9)) == [1, 5, 9] and len(lines) == 1
    assert append(START | {"step": 5}, START | {"step": 4}, histograms(6)) == [1, 6] and len(lines) == 3
    with path.open("ab") as file:  # a line that is being written
        file.write(encoded(histograms(7))[:-5])
    assert append() == [1, 6]
    path.write_bytes(encoded(START | {"id": "b"}))
    assert append(histograms(3)) == [3]
