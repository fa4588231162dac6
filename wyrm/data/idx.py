"""The IDX format of MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import math
import os
import stat
import zlib
from io import BufferedIOBase
from typing import Final

import numpy as np

from wyrm.data.checks import FilePath, open_data_file
from wyrm.errors import DataError

GZIP_MAGIC: Final = b"\x1f\x8b"

# Big-endian dtypes by the third byte of the file.
DTYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

MOST_DIMENSIONS: Final = 64
# Content above both limits, so many bytes and so many times the compressed size, is refused as a decompression bomb.
# MNIST compresses to a tenth of its size.
ALWAYS_READ: Final = 2**26
MOST_COMPRESSED: Final = 256
CHUNK: Final = 2**20


def read_idx(path: FilePath) -> np.ndarray:
    """Return the array in an IDX file, plain or gzip-compressed (detected by content, not by name).

    The file determines shape and dtype: MNIST's images are uint8 of shape (images, 28, 28) from 0 to 255, its labels
    uint8 of shape (labels,) from 0 to 9.

    Raises:
        DataError: the file is missing, empty, truncated, longer than its header says or not in IDX format, or
            decompresses to over 64 MiB and over 256 times its size.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "labels-idx1-ubyte"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    name = os.fspath(path)
    with open_data_file(path) as file:
        status = os.fstat(file.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None  # a pipe has no size
        if file.peek(2)[:2] != GZIP_MAGIC:
            return _read_array(name, file, size, None)
        most = None if size is None else max(MOST_COMPRESSED * size, ALWAYS_READ)
        try:
            with gzip.GzipFile(fileobj=file) as content:
                return _read_array(name, content, None, most)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{name} is a truncated or corrupt gzip file: {error}. Download it again.") from error


def _read_array(name: str, file: BufferedIOBase, size: int | None, most: int | None) -> np.ndarray:
    """Return the array of a file.

    `size` is the number of bytes of the file if known, `most` the most bytes that are accepted. The header is checked
    before the content is read, and only as many bytes are read as it says.
    """
    magic = file.read(4)
    if not magic:
        raise DataError(f"{name} is empty; expected an IDX file. Download it again.")
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in DTYPES or magic[3] == 0:
        raise DataError(
            f"{name} starts with the bytes {magic.hex(' ')}; expected the magic number of an IDX file, 00 00, "
            f"a type ({', '.join(f'{code:02x}' for code in DTYPES)}) and a number of dimensions. "
            f"Use an IDX file, such as MNIST's train-images-idx3-ubyte.gz."
        )
    dtype, dimension_count = np.dtype(DTYPES[magic[2]]), magic[3]
    if dimension_count > MOST_DIMENSIONS:
        raise DataError(f"{name} has {dimension_count} dimensions; a NumPy array has at most {MOST_DIMENSIONS}.")
    start = 4 + 4 * dimension_count
    sizes = file.read(start - 4)
    if len(sizes) < start - 4:
        raise DataError(
            f"{name} is truncated: {4 + len(sizes)} bytes; its header of {dimension_count} dimensions needs {start}. "
            f"Download it again."
        )
    shape = tuple(int.from_bytes(sizes[offset : offset + 4], "big") for offset in range(0, len(sizes), 4))
    if math.prod(shape) == 0:
        raise DataError(f"{name} holds an empty array of shape {shape}; expected at least one entry.")
    expected = start + math.prod(shape) * dtype.itemsize
    said = f"its header says shape {shape} and dtype {dtype.newbyteorder('=')}, which need {expected}"
    if size is not None and size != expected:
        problem = "is truncated" if size < expected else "has bytes after its data"
        raise DataError(f"{name} {problem}: {size} bytes; {said}. Download it again.")
    if most is not None and expected > most:
        raise DataError(
            f"{name} is damaged or a decompression bomb: {said} bytes, more than {MOST_COMPRESSED} times the size of "
            f"the compressed file. Download it again, or decompress it first if it is genuine."
        )
    content = bytearray()
    while chunk := file.read(min(expected - start - len(content), CHUNK)):
        content += chunk
    if len(content) < expected - start:
        raise DataError(f"{name} is truncated: {start + len(content)} bytes; {said}. Download it again.")
    if file.read(1):
        raise DataError(f"{name} has bytes after its data: {said}, but there are more. Download it again.")
    array = np.frombuffer(content, dtype=dtype).reshape(shape)  # writable, since it views a bytearray
    return array if dtype.isnative else array.byteswap(inplace=True).view(dtype.newbyteorder("="))
