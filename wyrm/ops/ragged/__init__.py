"""Graphs with rows of different lengths, as graphs of flat arrays that every engine runs.

A node with the axes (rows, ragged, ...) becomes one with the axes (entries, ...): its array has the entries of all rows
one after the other. A value of a row is repeated for the row's entries by a lookup of each entry's row, and a reduction
along the ragged axis is one by segments. All of these are ops that other graphs have too, with their gradients.

Importing this package registers the flat forms of all ops that have one.
"""

import wyrm.ops.ragged.entrywise
import wyrm.ops.ragged.made
import wyrm.ops.ragged.ordering
import wyrm.ops.ragged.reductions
import wyrm.ops.ragged.shaping  # noqa: F401  # all of these register forms
from wyrm.ops.ragged.compositions import check
from wyrm.ops.ragged.entries import EntryPositions, EntryRowNumbers, RowLengthsOf, entries_of, rows_of
from wyrm.ops.ragged.graphs import Flattened, flattened

__all__ = [
    "EntryPositions",
    "EntryRowNumbers",
    "Flattened",
    "RowLengthsOf",
    "check",
    "entries_of",
    "flattened",
    "rows_of",
]
