"""The error codes of exported functions, and what they mean."""

from __future__ import annotations

OK = 0
MEMORY = 1
STATE = 2
NOT_READY = 3
ARGUMENT = 4
BATCH = 5
INDEX = 6
NOT_FINITE = 7
DIVERGED = 8
TENSORS = 9
FULL = 15
OFFSETS = 20
ENTRIES = 21
# Errors of every export by their codes, and what they mean.
ERRORS = {
    "OK": (OK, "no error"),
    "MEMORY": (MEMORY, "the block of memory is missing, too small, or does not begin at a multiple of 64 bytes"),
    "STATE": (STATE, "the block of memory was not initialized for this model and version"),
    "NOT_READY": (NOT_READY, "the parameters were not set: load a file, or write them and call ready"),
    "ARGUMENT": (ARGUMENT, "an argument is missing or out of range"),
    "BATCH": (BATCH, "the model does not take batches of this size"),
    "INDEX": (INDEX, "an index in the data, or one computed from it, is out of range"),
    "NOT_FINITE": (NOT_FINITE, "the data holds a NaN or an infinity"),
    "DIVERGED": (
        DIVERGED, "the loss or a parameter became a NaN or infinite; the state is as it was before the call",
    ),
    "FULL": (FULL, "the sequence is as long as the model takes: begin a new one"),
    "OFFSETS": (OFFSETS, "offsets of rows do not begin at 0, decrease, or do not end at the number of entries"),
    "ENTRIES": (ENTRIES, "the rows of a batch have more entries than the model takes"),
    "TENSORS": (TENSORS, "a parameter or a number of the optimizer is a NaN or infinite, or a count is negative"),
}  # fmt: skip
# Errors of reading and writing files of tensors.
FILE_ERRORS = {
    "FILE_OPEN": (10, "the file cannot be opened"),
    "FILE_FORMAT": (11, "the file is no safetensors file: its header cannot be read"),
    "FILE_OTHER": (12, "the file is of another model: it lacks a tensor, or has one more"),
    "FILE_SHORT": (13, "the file is truncated, or longer than its tensors"),
    "FILE_WRITE": (14, "the file cannot be written; an earlier one is unchanged"),
    "FILE_TYPE": (16, "the file is of another model: a tensor has another type"),
    "FILE_SHAPE": (17, "the file is of another model: a tensor has another shape"),
    "FILE_OFFSETS": (18, "the file is damaged: its header does not place each tensor behind the one before"),
    "FILE_VERSION": (19, "the file was written by another version of wyrm"),
}
# The first code of an error that an operation of a model ends with.
FIRST_OWN_ERROR = 32
