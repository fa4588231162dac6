"""The Python blocks of the README run in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def test_the_python_blocks_run_in_order() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    namespace: dict[str, Any] = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


def test_the_first_two_shell_blocks_are_the_whole_set_up() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    install, test = blocks[:2]
    assert "examples/fizzbuzz.py" in install and "examples/bpr_movielens.py" in install
    assert "-m pytest" in test
    assert len(install.strip().splitlines()) == len(test.strip().splitlines()) == 1
