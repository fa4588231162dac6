"""Texts that the site makes of its pages."""

from __future__ import annotations

import pytest

from tests.site.reference import building

pytest.importorskip("docutils", reason="docutils is not installed")
texts = building("texts")


def test_a_page_whose_name_begins_as_a_folder_is_a_page() -> None:
    text = "[a](../benchmarks.md) [b](../bench/results) [c](../examples) [d](how-to/op.md)"
    assert texts.linked(text, "https://host") == (
        "[a](../benchmarks.md) [b](https://host/tree/main/bench/results) [c](https://host/tree/main/examples) "
        "[d](how-to/op.md)"
    )


def test_a_raised_error_of_several_lines_is_one_item() -> None:
    docstring = """Do it.

    Raises:
        ShapeError: For another
            number of axes.
    """
    shown = building("docstrings").markdown_of(docstring, lambda name: None)
    assert shown.splitlines()[2:] == ["Raises:", "", "- `ShapeError`: For another number of axes."]


def test_a_description_is_the_beginning_of_the_first_paragraph() -> None:
    from docutils.core import publish_doctree

    quiet = {"report_level": 5}
    assert texts.description(
        publish_doctree("Title\n=====\n\nOne\nsentence.\n\nAnother.", settings_overrides=quiet)
    ) == ("One sentence.")
    long = texts.description(publish_doctree("word " * 60, settings_overrides=quiet))
    assert long.endswith("word …") and len(long) <= 155
    assert texts.description(publish_doctree("", settings_overrides=quiet)) == ""


def test_the_page_of_an_example_says_where_its_files_are() -> None:
    examples = building("examples")
    assert examples.files_of("bpr_movielens") == [
        "bpr_movielens.py", "command_line.py", "film_pictures.py", "pictures.py",
    ]  # fmt: skip
    start = examples.page("fizzbuzz").partition("```python")[0]
    assert "[fizzbuzz.py](https://github.com/wyrm-autodiff/wyrm/blob/main/examples/fizzbuzz.py)" in start
    assert "python fizzbuzz.py --help" in start and "command_line.py" in start
