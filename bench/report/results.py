"""The results: what each contender took in each case, on each machine, as `bench/results/*.json` has them."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
# With others on more cores than this, the times of a case are theirs too.
DISTURBED = 0.2


@dataclass(frozen=True)
class Measured:
    """The rounds of one contender, or why there is none."""

    least: float = math.nan
    median: float = math.nan
    largest: float = math.nan
    rounds: int = 0
    peak_bytes: int | None = None
    missing: str = ""

    @classmethod
    def of(cls, values: Sequence[float], peaks: Sequence[int]) -> Measured:
        """Return the spread of these rounds."""
        peak = int(statistics.median(peaks)) if peaks else None
        return cls(min(values), statistics.median(values), max(values), len(values), peak)


@dataclass(frozen=True)
class Result:
    """A case on one machine: what was aimed at, how busy the machine was, and what each contender took.

    `run` is the position of the run among those of the machine. `load` is the load average before the case, `others`
    the cores that other programs kept busy during it, `took` the seconds of the whole case.
    """

    bench: str
    case: str
    unit: str
    goal: str
    floors: Mapping[str, float]
    most: float | None
    other_work: Sequence[str]
    run: int
    load: float
    others: float
    took: float
    contenders: Mapping[str, Measured]

    @property
    def key(self) -> str:
        """The name of the case among those of all benchmarks."""
        return f"{self.bench}: {self.case}"

    @property
    def disturbed(self) -> bool:
        """Whether other programs were busy during the case."""
        return self.others > DISTURBED

    def ratio(self, contender: str) -> float:
        """Return the contender's median relative to wyrm's; NaN if one of them is missing."""
        return self.contenders[contender].median / self.contenders["wyrm"].median


@dataclass
class Machine:
    """All that was measured on one machine.

    `runs` say when, at which commit, with which versions and settings, and whether with fewer rounds (`quick`).
    """

    processor: dict[str, Any]
    runs: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    roofline: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The processor's name, with family and model, which tell apart what is sold under one name."""
        numbers = [f"{key} {self.processor[key]}" for key in ("family", "model") if self.processor.get(key)]
        return ", ".join([str(self.processor["name"]), *([" ".join(numbers)] if numbers else [])])

    @property
    def caveat(self) -> str:
        """What is wrong with the results as a whole; "" if nothing is."""
        few = sum(self.runs[result.run]["quick"] for result in self.results.values())
        disturbed = sum(result.disturbed for result in self.results.values())
        found = [f"{few} have few rounds"] if few else []
        found += [f"{disturbed} were measured while other programs were busy"] if disturbed else []
        return f"of {len(self.results)} cases, {' and '.join(found)}" if found else ""

    def merge(
        self, run: dict[str, Any], results: Iterable[Result], roofline: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Add what a run measured, which replaces what was there of the same; forget runs of which nothing is left."""
        runs = [*self.runs, run]
        if roofline is not None:
            self.roofline = [each | {"run": len(runs) - 1} for each in roofline]
        self.results |= {each.key: Result(**(vars(each) | {"run": len(runs) - 1})) for each in results}
        used = sorted({each.run for each in self.results.values()} | {each["run"] for each in self.roofline})
        self.runs = [runs[each] for each in used]
        place = {run: position for position, run in enumerate(used)}
        self.results = {
            key: Result(**(vars(each) | {"run": place[each.run]})) for key, each in sorted(self.results.items())
        }
        self.roofline = [each | {"run": place[each["run"]]} for each in self.roofline]

    def write(self, path: Path) -> None:
        """Write the machine's file."""
        results = []
        for each in self.results.values():
            record = asdict(each)
            for measured in record["contenders"].values():
                for name in [name for name, value in measured.items() if value in (None, "") or value != value]:
                    del measured[name]
            results.append(record)
        whole = {"processor": self.processor, "runs": self.runs, "results": results, "roofline": self.roofline}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Machine:
        """Return what a file has."""
        whole = json.loads(path.read_text(encoding="utf-8"))
        results = {}
        for record in whole["results"]:
            contenders = {name: Measured(**each) for name, each in record["contenders"].items()}
            result = Result(**(record | {"contenders": contenders}))
            results[result.key] = result
        return cls(whole["processor"], whole["runs"], results, whole["roofline"])


@dataclass(frozen=True)
class Row:
    """One case beside one peer, with the results of each machine that has it."""

    case: str
    contender: str
    results: Mapping[str, Result]

    @property
    def floor(self) -> float | None:
        """The least ratio that is aimed at."""
        return next(iter(self.results.values())).floors.get(self.contender)

    @property
    def ratios(self) -> list[float]:
        """The peer's time relative to wyrm's, on each machine that measured both; the smallest first."""
        found = (result.ratio(self.contender) for result in self.results.values())
        return sorted(ratio for ratio in found if not math.isnan(ratio))

    @property
    def other_work(self) -> bool:
        """Whether the contender does less or other work, or is a variant of wyrm."""
        first = next(iter(self.results.values()))
        return self.contender in first.other_work or self.contender.startswith("wyrm")


def rows(machines: Mapping[str, Machine]) -> list[Row]:
    """Return a row for each case and contender but wyrm, the smallest ratio first and those without one last."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for name, machine in machines.items():
        for result in machine.results.values():
            for contender in result.contenders:
                if contender != "wyrm":
                    found.setdefault((result.key, contender), {})[name] = result
    every = [Row(case, contender, results) for (case, contender), results in found.items()]
    return sorted(every, key=lambda row: (min(row.ratios, default=math.inf), row.case, row.contender))


def caveats(machines: Mapping[str, Machine]) -> list[str]:
    """Return what is wrong with the results of each machine as a sentence, with its name if there are several."""
    found = [(machine.name, machine.caveat) for machine in machines.values() if machine.caveat]
    named = len(machines) > 1
    return [f"Preliminary: {caveat}{f' ({name})' if named else ''}." for name, caveat in found]


def files(folder: Path = RESULTS) -> list[Path]:
    """Return the files of all machines."""
    return sorted(folder.glob("*.json"))


def read(folder: Path = RESULTS) -> dict[str, Machine]:
    """Return the machines by the names of their files."""
    return {path.stem: Machine.read(path) for path in files(folder)}


def digest(folder: Path = RESULTS) -> str:
    """Return a digest of the files, which the page and the pictures carry."""
    hashed = hashlib.sha256()
    for path in files(folder):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()[:16]


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(0.00123), duration(float("nan"))
    ('1.23 ms', '')
    """
    if math.isnan(seconds):
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def amount(value: float, unit: str) -> str:
    """Return a value with its unit."""
    return duration(value) if unit == "s" else "" if math.isnan(value) else f"{value:.2g}"
