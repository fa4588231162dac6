"""The IDX format, in which MNIST and Fashion-MNIST are published."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wyrm.data.files import FilePath, open_data_file
from wyrm.errors import DataError

GZIP_MAGIC: Final = b"\x1f\x8b"

# The third byte of a file says what its numbers are; they are stored with the most significant byte first.
DTYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: FilePath) -> NDArray[Any]:
    """Read an array from an IDX file, compressed by gzip or not (recognised by its content, not by its name).

    The array has the shape and dtype that the file states: MNIST's images are uint8 of shape (images, 28, 28) from 0
    to 255, its labels uint8 of shape (labels,) from 0 to 9.

    Raises:
        DataError: the file is missing, empty, truncated, longer than its header says, or not in IDX format.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "labels-idx1-ubyte"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    name = os.fspath(path)
    with open_data_file(path) as file:
        content = file.read()
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(f"{name} is a truncated or corrupt gzip file: {error}. Download it again.") from error
    if not content:
        raise DataError(f"{name} is empty; expected an IDX file. Download it again.")
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in DTYPES or content[3] == 0:
        raise DataError(
            f"{name} starts with the bytes {content[:4].hex(' ')}; expected the magic number of an IDX file, 00 00, "
            f"a type ({', '.join(f'{code:02x}' for code in DTYPES)}) and a number of dimensions. "
            f"Give an IDX file, such as MNIST's train-images-idx3-ubyte.gz."
        )
    dtype, dimension_count = np.dtype(DTYPES[content[2]]), content[3]
    start = 4 + 4 * dimension_count
    if len(content) < start:
        raise DataError(
            f"{name} is truncated: {len(content)} bytes; its header of {dimension_count} dimensions takes {start}. "
            f"Download it again."
        )
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4))
    size = math.prod(shape)
    if size == 0:
        raise DataError(f"{name} holds an empty array of shape {shape}; expected at least one entry.")
    expected = start + size * dtype.itemsize
    if len(content) != expected:
        problem = "is truncated" if len(content) < expected else "has bytes after its data"
        raise DataError(
            f"{name} {problem}: {len(content)} bytes; its header says shape {shape} and dtype "
            f"{dtype.newbyteorder('=')}, which take {expected}. Download it again."
        )
    # The copy, in the byte order of this computer, can be written to; a view of the file's bytes cannot.
    return np.frombuffer(content, dtype=dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
