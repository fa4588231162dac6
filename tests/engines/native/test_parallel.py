"""Modules compiled by a second process give the same machine code, whatever happens to that process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from wyrm.engines.native.llvm import optimize as parallel
from wyrm.engines.native.llvm import second_process
from wyrm.engines.native.llvm.optimize import Compilation, Unit, machine_code
from wyrm.engines.native.llvm.second_process import SecondProcess

pytestmark = pytest.mark.optimized


def unit(number: int, text: str = "") -> Unit:
    """Return a module that takes some time to compile."""
    body = "\n".join(f"  %v{i + 1} = add i64 %v{i}, {i * number}" for i in range(1500))
    return Unit(f"u{number}", text or f"define i64 @f{number}(i64 %v0) {{\n{body}\n  ret i64 %v1500\n}}\n", 3)


UNITS = [unit(number) for number in range(1, 7)]


@pytest.fixture(autouse=True)
def core(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend that the machine has a spare core."""
    monkeypatch.setattr(second_process, "_has_a_core", lambda: True)
    yield


def here(compiled: list[str]) -> parallel.Compile:
    def compile_one(each: Unit) -> bytes:
        compiled.append(each.symbol)
        return machine_code(each.text, each.level)

    return compile_one


def compiled_all(
    units: Sequence[Unit], compile_one: parallel.Compile, keep: parallel.Keep, second: SecondProcess
) -> dict[str, bytes]:
    """Compile modules that are made one after another."""
    with Compilation(compile_one, keep, second) as compilation:
        for each in units:
            compilation.add(each)
        return compilation.finish()


def forget(unit: Unit, code: bytes) -> None:
    """Keep nothing."""


def test_what_was_made_before_an_interruption_is_kept() -> None:
    kept: list[str] = []

    def interrupted(each: Unit) -> bytes:
        if len(kept) == 2:
            raise KeyboardInterrupt
        return b"code"

    with SecondProcess(early=False) as second, pytest.raises(KeyboardInterrupt):
        compiled_all(UNITS, interrupted, lambda unit, _: kept.append(unit.symbol), second)
    assert len(kept) == 2


@pytest.mark.parametrize("early", [False, True])
def test_both_processes_make_the_same_code(early: bool) -> None:
    compiled: list[str] = []
    kept: dict[str, bytes] = {}
    with SecondProcess(early=early) as second:
        found = compiled_all(UNITS, here(compiled), lambda unit, code: kept.update({unit.symbol: code}), second)
        process = second._process
    assert kept == found
    assert list(found) == [each.symbol for each in UNITS]
    assert found == {each.symbol: machine_code(each.text) for each in UNITS}
    assert process is not None and process.returncode is not None  # it has ended


def test_a_second_process_takes_part() -> None:
    with SecondProcess(early=True) as second:
        assert second.is_ready()
        assert second.machine_code(UNITS[0]) == machine_code(UNITS[0].text)
        assert second.machine_code(UNITS[1]) == machine_code(UNITS[1].text)
        assert second.machine_code(unit(1, "no module")) is None
        assert second.machine_code(UNITS[2]) == machine_code(UNITS[2].text)


@pytest.mark.parametrize("executable", ["/bin/false", "/nowhere/python", "/bin/cat"])
def test_all_is_compiled_here_where_no_other_process_does_it(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    compiled: list[str] = []
    with SecondProcess(early=True) as second:
        found = compiled_all(UNITS, here(compiled), forget, second)
    assert sorted(compiled) == [each.symbol for each in UNITS]
    assert found == {each.symbol: machine_code(each.text) for each in UNITS}


def test_what_llvm_refuses_is_raised_here() -> None:
    with SecondProcess(early=True) as second, pytest.raises(RuntimeError):
        compiled_all([*UNITS, unit(9, "no module " * 10_000)], here([]), forget, second)


def test_the_second_process_begins_before_all_modules_are_made() -> None:
    compiled: list[str] = []
    with SecondProcess(early=True) as second, Compilation(here(compiled), forget, second) as compilation:
        assert second.is_ready()
        compilation.add(UNITS[0])
        for _ in range(500):
            if compilation._found:
                break
            time.sleep(0.02)
        assert list(compilation._found) == [UNITS[0].symbol]
        compilation.add(UNITS[1])
        assert list(compilation.finish()) == [each.symbol for each in UNITS[:2]]
    assert UNITS[0].symbol not in compiled


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pretend that this process has compiled nothing."""
    monkeypatch.setattr(second_process._First, "asked", False)
    monkeypatch.setenv("WYRM_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("first")
def test_the_process_that_starts_with_the_first_program_is_taken_once() -> None:
    second_process.start_for_first_program()
    second_process.start_for_first_program()
    with second_process.second_process(early=False) as taken, second_process.second_process(early=False) as other:
        assert taken.runs and not other.runs
        assert taken.is_ready()
    assert not taken.runs


@pytest.mark.usefixtures("first")
def test_a_process_that_no_program_takes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_process, "_UNUSED", 0.05)
    second_process.start_for_first_program()
    started = second_process._First.process
    assert started is not None
    while started.runs:
        time.sleep(0.01)
    with second_process.second_process(early=False) as other:
        assert other is not started and not other.runs


@pytest.mark.usefixtures("first")
def test_no_process_starts_with_a_first_program_whose_cache_is_full(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"wyrm_{number:032}.machine").write_bytes(b"")
    second_process.start_for_first_program()
    assert second_process._First.process is None
