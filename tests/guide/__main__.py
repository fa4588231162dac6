"""`python -m tests.guide` writes the outputs that the guide for contributors shows, and the map of rooms."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.guide import forms, rooms

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = forms.forms_of_the_model(Path(folder))
    text = forms.GUIDE.read_text(encoding="utf-8")
    forms.GUIDE.write_text(forms.with_outputs(text, found), encoding="utf-8")
    rooms.PICTURE.write_text(rooms.picture(), encoding="utf-8")
