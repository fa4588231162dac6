"""Reader of the files of MovieLens: ratings of films by users."""

from __future__ import annotations

import codecs
import math
import os
import re
from array import array
from typing import NoReturn

import numpy as np

from wyrm.data.checks import FilePath, open_data_file
from wyrm.data.interactions import Interactions
from wyrm.errors import DataError

# The header in this project's documentation, and that of the files GroupLens has published since 2014.
HEADERS = (b"user_id,item_id,rating,timestamp", b"userId,movieId,rating,timestamp")

# Strict number patterns: `int` and `float` also accept 1_0 and spaces.
_WHOLE, _DECIMAL = rb"([+-]?[0-9]+)", rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_LINES = {mark: re.compile(mark.join([_WHOLE, _WHOLE, _DECIMAL, _WHOLE])) for mark in (b"\t", b",")}


def _refuse(path: FilePath, number: int, line: bytes, separator: bytes) -> NoReturn:
    text = line.decode("utf-8", errors="replace").rstrip("\r\n")
    shown = text if len(text) <= 80 else text[:80] + "..."
    expected = (
        "user_id,item_id,rating,timestamp separated by commas"
        if separator == b","
        else "user_id, item_id, rating and timestamp separated by tabs, or a first line that reads "
        "user_id,item_id,rating,timestamp"
    )
    raise DataError(
        f"{os.fspath(path)}, line {number}: got {shown!r}; expected {expected}, "
        f"with whole numbers and a finite rating. Repair or remove the line."
    )


def read_movielens(path: FilePath) -> Interactions:
    """Read a file of MovieLens ratings: tab-separated `u.data`, or CSV with a header.

    A line holds user id, item id, rating, and timestamp in seconds since 1970. The header of a CSV file is
    `user_id,item_id,rating,timestamp` (or `userId,movieId,rating,timestamp`, as in the larger MovieLens sets). Rows
    keep the order of the file. Ids become indices from 0 in ascending order; `user_ids` and `item_ids` map indices back
    to ids. Blank lines are skipped.

    Raises:
        DataError: the file is missing or has no ratings, or a line is malformed; with the file and the line.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "u.data"
    ...     _ = path.write_text("196\\t242\\t3\\t881250949\\n186\\t302\\t3\\t891717742\\n")
    ...     ratings = read_movielens(path)
    >>> ratings
    Interactions(2 rows, 2 users, 2 items)
    >>> ratings.users, ratings.user_ids
    (array([1, 0]), array([186, 196]))
    """
    user_ids, item_ids, timestamps = array("q"), array("q"), array("q")
    ratings = array("f")
    separator = b"\t"
    with open_data_file(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
                if line.strip() in HEADERS:
                    separator = b","
                    continue
            # Strip only the line end: a line of tabs is malformed, not blank.
            content = line.rstrip(b"\r\n")
            if not content:
                continue
            fields = _LINES[separator].fullmatch(content)
            if fields is None:
                _refuse(path, number, line, separator)
            user, item, rating, timestamp = fields.groups()
            try:
                user_ids.append(int(user))
                item_ids.append(int(item))
                ratings.append(float(rating))
                timestamps.append(int(timestamp))
            except (ValueError, OverflowError):
                _refuse(path, number, line, separator)
            if not math.isfinite(ratings[-1]):
                _refuse(path, number, line, separator)
    if not ratings:
        raise DataError(
            f"{os.fspath(path)} holds no ratings; expected lines of user_id, item_id, rating and timestamp. "
            f"Pass a file of ratings (examples take it as --data)."
        )
    users, user_indices = np.unique(np.array(user_ids, dtype=np.int64), return_inverse=True)
    items, item_indices = np.unique(np.array(item_ids, dtype=np.int64), return_inverse=True)
    return Interactions(
        users=user_indices.astype(np.int64),
        items=item_indices.astype(np.int64),
        ratings=np.array(ratings, dtype=np.float32),
        timestamps=np.array(timestamps, dtype=np.int64),
        user_ids=users,
        item_ids=items,
    )
