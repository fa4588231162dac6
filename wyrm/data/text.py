"""Text to train language models on: a local file, or a dataset of the Hugging Face hub."""

from __future__ import annotations

import os

from wyrm.data.files import FilePath, open_data_file
from wyrm.errors import DataError


def read_text(path: FilePath) -> str:
    """Return the content of a UTF-8 text file, without a byte order mark at its start.

    Raises:
        DataError: the file is missing, empty, or not UTF-8; with the file and the offset of the first wrong byte.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "stories.txt"
    ...     _ = path.write_text("Once upon a time", encoding="utf-8")
    ...     read_text(path)
    'Once upon a time'
    """
    with open_data_file(path) as file:
        content = file.read()
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{os.fspath(path)} is not UTF-8 text: byte {error.start} (0x{content[error.start]:02x}) is wrong "
            f"({error.reason}). Use a UTF-8 file, or convert this one, for example with iconv."
        ) from error
    if not text:
        raise DataError(f"{os.fspath(path)} is empty; expected text. Pass another file (examples take it as --data).")
    return text


def load_text_dataset(
    name: str,
    split: str = "train",
    data: FilePath | None = None,
    *,
    column: str = "text",
    separator: str = "\n",
) -> str:
    """Return the text of a dataset of the Hugging Face hub, or of the local file `data` if given.

    `name` is the name of the dataset, such as `"roneneldan/TinyStories"`, and `split` an argument of
    `datasets.load_dataset`: `"train"`, or a part such as `"train[:1%]"`. The entries of `column` are joined by
    `separator`. A local file is read whole and needs neither the hub nor the package `datasets`.

    Raises:
        DataError: the package `datasets` is missing, the hub is unreachable or has no such dataset, split or column, an
            entry is not text, or there is no text; for a local file see `read_text`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "stories.txt"
    ...     _ = path.write_text("Once upon a time", encoding="utf-8")
    ...     load_text_dataset("roneneldan/TinyStories", data=path)
    'Once upon a time'
    """
    if data is not None:
        return read_text(data)
    try:
        # Imported here, since the import takes seconds and only the hub needs it.
        import datasets  # pyright: ignore[reportMissingImports]  # an extra, which need not be installed
    except ImportError as error:
        raise DataError(
            f"loading {name!r} needs the package 'datasets', which cannot be imported ({error}). Install it with "
            f"pip install 'wyrm-autodiff[examples]', or pass a local text file (examples take it as --data)."
        ) from error
    try:
        table = datasets.load_dataset(name, split=split)
    except Exception as error:
        # Any exception: the hub's client passes on the errors of its HTTP library.
        raise DataError(
            f"cannot load {name!r}, split {split!r}, from the hub ({type(error).__name__}: {error}). Check the name, "
            f"the split and the connection, or pass a local text file (examples take it as --data)."
        ) from error
    if column not in table.column_names:
        raise DataError(f"{name!r} has no column {column!r}; its columns are {table.column_names}. Pass column=...")
    entries = list(table[column])
    for row, entry in enumerate(entries):
        if not isinstance(entry, str):
            raise DataError(
                f"{name!r}, split {split!r}: column {column!r} holds a {type(entry).__name__} in row {row}; "
                f"expected text. Pass another column=..."
            )
    if not any(entries):
        raise DataError(f"{name!r}, split {split!r}: column {column!r} holds no text. Pass another split or column.")
    return separator.join(entries)
