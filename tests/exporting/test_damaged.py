"""Files of tensors that are damaged, or of other models, are refused by C and JavaScript, and nothing changes.

Headers with a byte changed are drawn by chance; WYRM_TEST_FLIPS=4000 tries so many.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.models import Batch
from wyrm.exporting.errors import ERRORS, FILE_ERRORS
from wyrm.exporting.exported import Exported

FLIPS = int(os.environ.get("WYRM_TEST_FLIPS", "300"))
COMPILER = shutil.which("cc") or shutil.which("gcc")
HERE = Path(__file__).parent
# Characters of one to four bytes in UTF-8, and those that JSON and C escape.
NAME = 'größe "1" \\ ??/ 数 \N{GRINNING FACE}\n\x01'
KEYS = {code: key for key, (code, _) in (ERRORS | FILE_ERRORS).items()}


class Made(NamedTuple):
    """A folder with an export for C and one for WebAssembly, of one training, and two files of tensors."""

    folder: Path
    exported: Exported
    weight: wy.Parameter[Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("damaged")
    x, batch = wy.Input(dims=(Batch(), 3), name="x"), {"batch_sizes": 4}
    weight, bias = wy.Parameter(np.ones((2, 3), np.float32), name=NAME), wy.Parameter(np.zeros(2), name="bias")
    empty = wy.Parameter(np.zeros((0, 3), np.float32), name="empty")
    loss = (x @ weight.T + bias.astype(np.float32)).square().mean() + empty.sum()
    train = wy.compile(loss, wy.optim.SGD([weight, bias, empty], 0.1, momentum=0.9))
    exported = wy.export(folder, train=train, **batch)  # type: ignore[arg-type]  # one option
    exported.save(folder / "state.safetensors")
    train({x: np.ones((2, 3), np.float32)})
    exported.save(folder / "good.safetensors")
    wy.export(folder / "wasm", train=train, target="wasm32", **batch)  # type: ignore[arg-type]  # one option
    return Made(folder, exported, weight)


def in_c(made: Made, cases: Sequence[bytes]) -> list[str]:
    """Return what C finds in each case, under the sanitizers if the compiler has them."""
    assert COMPILER is not None
    command = [COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I.", "-o", "damaged"]
    sanitized = [*command, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    files = [str(HERE / "damaged.c"), "model.o", "-lm"]
    if subprocess.run([*sanitized, *files], cwd=made.folder, capture_output=True, check=False).returncode:
        ran([*command, *files], made.folder)
    printed = ran(["./damaged", *given(made, cases), "from_c.safetensors"], made.folder)
    return [KEYS[int(code)] for code in printed.split()]


def in_node(made: Made, cases: Sequence[bytes]) -> list[str]:
    """Return what JavaScript finds in each case."""
    files = [str(made.folder / file) for file in (*given(made, cases), "from_node.safetensors")]
    printed = ran(["node", str(HERE / "damaged.mjs"), *files], made.folder / "wasm")
    found: list[str] = json.loads(printed)
    return found


def given(made: Made, cases: Sequence[bytes]) -> list[str]:
    sized = [len(case).to_bytes(4, "little") + case for case in cases]
    (made.folder / "cases").write_bytes(b"".join(sized))
    return ["state.safetensors", "good.safetensors", "cases"]


def ran(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-500:]}{done.stderr}"
    return done.stdout


LANGUAGES = [
    pytest.param(in_c, marks=pytest.mark.skipif(COMPILER is None, reason="needs a C compiler"), id="c"),
    pytest.param(in_node, marks=pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js"), id="node"),
]
Reader = Callable[[Made, Sequence[bytes]], list[str]]


def parts(made: Made) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of the good file."""
    good = (made.folder / "good.safetensors").read_bytes()
    end = 8 + int.from_bytes(good[:8], "little")
    return json.loads(good[8:end]), good[end:]


def said(header: bytes) -> dict[str, Any]:
    """Return what a header says of tensors."""
    found: dict[str, Any] = json.loads(header.decode(errors="replace"), strict=False)
    found.pop("__metadata__", None)
    return found


def file_of(header: object, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize("read", LANGUAGES)
def test_a_header_with_a_byte_changed_is_refused_or_says_the_same(made: Made, read: Reader) -> None:
    good = (made.folder / "good.safetensors").read_bytes()
    end = 8 + int.from_bytes(good[:8], "little")
    random, cases = np.random.default_rng(FLIPS), list[bytes]()
    for place in random.integers(0, end, FLIPS):
        case = bytearray(good)
        case[place] ^= int(random.integers(1, 256))
        cases.append(bytes(case))
    found = read(made, cases)
    assert len(found) == FLIPS
    assert set(found) <= {"OK", "TENSORS", *FILE_ERRORS}
    tensors = said(good[8:end])
    for changed, answer in zip(cases, found, strict=True):
        # A byte of the metadata may change: what is read of a tensor may not.
        assert answer != "OK" or said(changed[8:end]) == tensors
    assert found.count("OK") < FLIPS // 2


@pytest.mark.parametrize("read", LANGUAGES)
def test_a_file_that_ends_early_or_late_is_refused(made: Made, read: Reader) -> None:
    good = (made.folder / "good.safetensors").read_bytes()
    cases = [*(good[:length] for length in range(0, len(good), 3)), good + b"\0", good + good]
    assert set(read(made, cases)) == {"FILE_SHORT"}


def wrong(made: Made) -> Mapping[str, tuple[bytes, str]]:
    """Return files with headers that are wrong, and the error of each."""
    header, data = parts(made)
    (start, stop), first = header["bias"]["data_offsets"], header[NAME]["data_offsets"]
    places = [each["data_offsets"] for each in header.values() if "data_offsets" in each]

    def entry(name: str, **changed: object) -> bytes:
        return file_of(header | {name: header[name] | changed}, data)

    def moved(by: int) -> dict[str, Any]:
        return {
            name: each | {"data_offsets": [place + by for place in each["data_offsets"]]} if "dtype" in each else each
            for name, each in header.items()
        }

    (same,) = [name for name in header if name.startswith("optimizer/0.")]  # of the shape of the first parameter
    nothing = np.full(2, np.nan).tobytes()
    epochs = header["program/epochs"]["data_offsets"][0]
    last = max(place for place in places if place[0] < place[1])
    more = {"more": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}
    empty = {name: each | {"data_offsets": [0, 0]} for name, each in header.items() if each.get("shape") == [0, 3]}
    one_less = {name: each for name, each in header.items() if each.get("data_offsets") != last} | empty
    return {
        "two at one place": (entry(same, data_offsets=first), "FILE_OFFSETS"),
        "behind a gap": (file_of(moved(8), bytes(8) + data), "FILE_OFFSETS"),
        "before the data": (file_of(moved(-8), data), "FILE_FORMAT"),
        "one byte later": (entry("bias", data_offsets=[start + 1, stop + 1]), "FILE_OFFSETS"),
        "from end to start": (entry("bias", data_offsets=[stop, start]), "FILE_OFFSETS"),
        "beyond all": (entry("bias", data_offsets=[2**52, 2**52 + 16]), "FILE_OFFSETS"),
        "of another size": (entry("bias", data_offsets=[start, stop - 8]), "FILE_OFFSETS"),
        "one more": (file_of(header | more, data), "FILE_OTHER"),
        "one less": (file_of(one_less, data[: last[0]]), "FILE_OTHER"),
        "of another type": (entry("bias", dtype="I64"), "FILE_TYPE"),
        "of no type": (entry("bias", dtype="constructor"), "FILE_TYPE"),
        "of another shape": (entry(NAME, shape=[3, 2]), "FILE_SHAPE"),
        "a NaN": (file_of(header, data[:start] + nothing + data[stop:]), "TENSORS"),
        "a count below zero": (file_of(header, data[:epochs] + b"\xff" * 8 + data[epochs + 8 :]), "TENSORS"),
        "another version": (file_of(header | {"__metadata__": {"wyrm": "2"}}, data), "FILE_VERSION"),
        "metadata of no text": (file_of(header | {"__metadata__": {"wyrm": 1}}, data), "FILE_FORMAT"),
        "metadata of no texts": (file_of(header | {"__metadata__": []}, data), "FILE_FORMAT"),
        "no entry": (file_of(header | {"bias": None}, data), "FILE_FORMAT"),
        "an empty entry": (file_of(header | {"bias": {}}, data), "FILE_FORMAT"),
        "a key more": (entry("bias", more=1), "FILE_FORMAT"),
        "no places": (entry("bias", data_offsets=None), "FILE_FORMAT"),
        "one place": (entry("bias", data_offsets=[start]), "FILE_FORMAT"),
        "three places": (entry("bias", data_offsets=[start, stop, stop]), "FILE_FORMAT"),
        "places that are texts": (entry("bias", data_offsets=[str(start), str(stop)]), "FILE_FORMAT"),
        "places that are not whole": (entry("bias", data_offsets=[start + 0.5, stop + 0.5]), "FILE_FORMAT"),
        "a shape that is no list": (entry("bias", shape=2), "FILE_FORMAT"),
        "a list": (file_of([], data), "FILE_FORMAT"),
        "null": (file_of(None, data), "FILE_FORMAT"),
        "no JSON": (file_of(b"{" * 9999, data), "FILE_FORMAT"),
        "more than JSON": (file_of(json.dumps(header).encode() + b" {}", data), "FILE_FORMAT"),
        "half an escape": (file_of(b'{"\\u00', data), "FILE_FORMAT"),
        "no escape": (file_of(b'{"\\x": 1}', data), "FILE_FORMAT"),
    }  # fmt: skip


@pytest.mark.parametrize("read", LANGUAGES)
def test_a_wrong_header_is_refused_by_what_is_wrong(made: Made, read: Reader) -> None:
    cases = wrong(made)
    found = dict(zip(cases, read(made, [case for case, _ in cases.values()]), strict=True))
    assert found == {name: error for name, (_, error) in cases.items()}


@pytest.mark.parametrize("read", LANGUAGES)
def test_names_in_any_alphabet_are_read_and_come_home(made: Made, read: Reader) -> None:
    header, data = parts(made)
    by_name = dict(sorted(header.items()))  # another order
    long = {"__metadata__": {"wyrm": "1", "of others": "long " * 999}} | by_name
    texts = [json.dumps(each, ensure_ascii=escaped) for each in (by_name, long) for escaped in (True, False)]
    texts.append(json.dumps(header, indent=1).replace("/", "\\/"))
    assert set(read(made, [file_of(text.encode(), data) for text in texts])) == {"OK"}
    wanted = made.weight.value.copy()
    made.weight.set(np.zeros_like(wanted))
    made.exported.load(made.folder / ("from_c.safetensors" if read is in_c else "from_node.safetensors"))
    np.testing.assert_array_equal(made.weight.value, wanted)
