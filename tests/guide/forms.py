"""The forms of the guide's model, from its nodes to machine code, and the outputs that the guide shows of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / ".github" / "CONTRIBUTING.md"
# An output in the guide: the comment that names it, and its fenced block.
OUTPUT = re.compile(r"(<!-- output: (?P<name>[^>]+?) -->\n```\w*\n)(?P<text>.*?)(```\n)", re.DOTALL)
# What functions have only on processors with vectors of this size.
_OF_THE_PROCESSOR = re.compile(r' "prefer-vector-width"="\d+"')
_MODEL = re.compile(r"<!-- model -->\n```python\n(.*?)```\n", re.DOTALL)


def forms_of_the_model(folder: Path) -> dict[str, str]:
    """Return the text of each stage of the guide's model, by its name, and that of its function for JAX, "jax".

    `folder` takes the model as a file, whose name the texts contain.
    """
    found = _MODEL.search(GUIDE.read_text(encoding="utf-8"))
    assert found is not None, "the guide has no model"
    (folder / "model.py").write_text(found.group(1), encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("print_forms.py")), "model.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    forms: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return forms


def excerpt(forms: Mapping[str, str], name: str) -> str:
    """Return what the guide shows under a name: a form, or of a form the function whose name follows a colon."""
    form, _, function = (part.strip() for part in name.partition(":"))
    text = forms[form]
    if function:
        start, end = (r"^define [^\n]*@", "\n}") if form == "emit" else ("^def ", r"(?=\n\n|\Z)")
        found = re.search(rf"{start}{function}\(.*?{end}", text, re.DOTALL | re.MULTILINE)
        assert found is not None, f"{form} has no function {function}"
        text = found.group()
    return _OF_THE_PROCESSOR.sub("", text).strip("\n") + "\n"


def with_outputs(guide: str, forms: Mapping[str, str]) -> str:
    """Return the text of the guide with each output as the forms have it."""
    return OUTPUT.sub(lambda found: f"{found[1]}{excerpt(forms, found['name'])}{found[4]}", guide)
