"""The page, the pictures and the README show the files of results, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.report import draw, machine
from bench.report.page import page, rounds
from bench.report.picture import draw as picture
from bench.report.picture import lines_of
from bench.report.results import Machine, Measured, Result, caveats, digest, read, rows

PROCESSORS = {
    "amd": {"name": "AMD EPYC", "family": "26", "model": "2"},
    "intel": {"name": "Intel(R) Xeon(R)", "family": "6", "model": "143"},
}
RUN = {"started": "2026-01-01", "quick": False, "settings": {"OMP_NUM_THREADS": "2"}, "versions": {"wyrm": "abc"}}


def result(case: str, others: float = 0.0, floor: float | None = None, **seconds: float | str) -> Result:
    bench, _, name = case.partition(": ")
    contenders = {
        key.replace("_", " "): Measured(missing=value) if isinstance(value, str) else Measured.of([value], [])
        for key, value in seconds.items()
    }
    peer = next(key for key in contenders if key != "wyrm")
    floors = {} if floor is None else {peer: floor}
    return Result(bench, name, "s", "", floors, None, [], 0, 0.1, others, 1.0, contenders)


def machine_of(name: str, *results: Result) -> Machine:
    about = PROCESSORS[name] | {"cores": 2, "caches": {"L2": "1M"}, "vectors": "avx2", "memory": "", "system": ""}
    made = Machine(about)
    made.merge(dict(RUN), results)
    return made


def machines() -> dict[str, Machine]:
    amd = machine_of(
        "amd",
        result("gpt2: step, 124M, dropout 0.0", wyrm=1.0, torch_eager=2.0, floor=1.3),
        result("chain: build", wyrm=1.0, torch_eager=0.5, others=1.0),
        result("bpr: epoch", wyrm=1.0, implicit="implicit is not installed"),
        result("growth: table, a row of a step: rows 1,000", wyrm=1.0, torch_eager=3.0),
        result("growth: table, a row of a step: rows 200", wyrm=1.0, torch_eager=4.0),
        result("norms: batch norm", wyrm=1.0, torch=3.0),
    )
    intel = machine_of("intel", result("gpt2: step, 124M, dropout 0.0", wyrm=1.0, torch_eager=0.95, floor=1.3))
    return {"amd": amd, "intel": intel}


def test_losing_rows_come_first_and_rows_of_several_machines_are_spans() -> None:
    every = [row for row in rows(machines()) if row.ratios]
    assert [(row.case, row.ratios) for row in every[:2]] == [
        ("chain: build", [0.5]),
        ("gpt2: step, 124M, dropout 0.0", [0.95, 2.0]),
    ]
    text = page(machines(), "0123")
    assert "digest of bench/results: 0123" in text
    slower, faster = text.split("## Rows where wyrm is faster")
    assert "| 0.95 to 2.00 | 2.00 (2 s / 1 s) | **0.95** (950 ms / 1 s) |" in slower
    assert "norms: batch norm" in faster and "norms: batch norm" not in slower
    assert "| bpr: epoch | implicit | AMD EPYC, family 26 model 2 | implicit is not installed |" in text
    assert "OMP_NUM_THREADS=2" in text
    assert text.index("| 200 |") < text.index("| 1,000 |")
    of_machines = [rounds(machine, "0123") for machine in machines().values()]
    assert all("digest of bench/results: 0123" in text for text in of_machines)
    assert any("| 0.10 | **1.00** |" in text for text in of_machines), "others kept a core busy"


def test_the_picture_has_the_slowest_third_of_all_cases_and_the_programs() -> None:
    worst, programs = lines_of(machines())
    assert [line.label for line in worst] == ["chain: build"]
    assert [(line.label, line.ratios) for line in programs] == [("GPT-2 124M, a step", {"torch": [0.95, 2.0]})]


@pytest.mark.parametrize("dark", [False, True])
def test_the_picture_is_the_same_each_time(dark: bool) -> None:
    first, second = picture(machines(), "0123", dark), picture(machines(), "0123", dark)
    assert first == second
    root = ElementTree.fromstring(first)
    assert root.tag.endswith("svg") and "digest of bench/results: 0123" in first
    assert ("#e6edf3" in first) == dark


def test_what_is_measured_again_replaces_what_was_and_old_runs_go(tmp_path: Path) -> None:
    one = machine_of("amd", result("a: 1", wyrm=1.0, torch=1.0), result("a: 2", wyrm=1.0, torch=1.0))
    one.roofline = [{"name": "step", "run": 0}]
    one.merge(RUN | {"started": "later"}, [result("a: 2", wyrm=1.0, torch=2.0)])
    assert [run["started"] for run in one.runs] == ["2026-01-01", "later"]
    one.merge(RUN | {"started": "last"}, [result("a: 1", wyrm=1.0, torch=5.0)], [{"name": "step"}])
    assert [run["started"] for run in one.runs] == ["later", "last"]
    assert [(each.key, each.run, each.ratio("torch")) for each in one.results.values()] == [
        ("a: 1", 1, 5),
        ("a: 2", 0, 2),
    ]
    one.write(tmp_path / "amd.json")
    again = Machine.read(tmp_path / "amd.json")
    assert again == one


def test_a_file_keeps_why_a_peer_is_missing(tmp_path: Path) -> None:
    made = machine_of("amd", result("bpr: epoch", wyrm=1.0, implicit="no answer in 60 s"))
    made.write(tmp_path / "amd.json")
    assert json.loads((tmp_path / "amd.json").read_text())["results"][0]["contenders"]["implicit"] == {
        "rounds": 0, "missing": "no answer in 60 s"
    }  # fmt: skip
    assert read(tmp_path)["amd"].results["bpr: epoch"].contenders["implicit"].missing == "no answer in 60 s"


def test_the_digest_is_of_all_files(tmp_path: Path) -> None:
    for name in ("amd", "intel"):
        machines()[name].write(tmp_path / f"{name}.json")
    before = digest(tmp_path)
    made = machines()["intel"]
    made.merge(RUN, [result("chain: build", wyrm=1.0, torch_eager=0.51)])
    made.write(tmp_path / "intel.json")
    assert digest(tmp_path) != before


@pytest.mark.parametrize("path", draw.drawn(), ids=lambda path: path.name)
def test_what_the_repository_shows_is_drawn_from_its_results(path: Path) -> None:
    again = "python -m bench.report"
    assert path.read_text(encoding="utf-8") == draw.drawn()[path], f"{path.name} is not of bench/results: {again}"


def test_this_machine_is_described() -> None:
    about = machine.processor()
    assert about["name"] and about["cores"]
    assert machine.slug(about).replace("-", "").isalnum()
    versions = machine.software()
    assert versions["numpy"][0].isdigit() and "numba" in versions


def test_a_caveat_names_its_machine_where_there_are_several() -> None:
    busy = [result("chain: build", wyrm=1.0, torch_eager=0.5, others=1.0)]
    one, two = machine_of("amd", *busy), machine_of("intel", *busy)
    words = "of 1 cases, 1 were measured while other programs were busy"
    assert caveats({"amd": one}) == [f"Preliminary: {words}."]
    assert caveats({"amd": one, "intel": two}) == [
        f"Preliminary: {words} ({name})."
        for name in ("AMD EPYC, family 26 model 2", "Intel(R) Xeon(R), family 6 model 143")
    ]
