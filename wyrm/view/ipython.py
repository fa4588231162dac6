"""How IPython displays tuples of axes, which have no `_repr_mimebundle_`."""

from __future__ import annotations

from typing import Any

from wyrm.graph.axes import Dim


def show_axes_as_tables(shell: Any) -> None:
    """Let a shell of IPython display tuples of axes as tables, unless the user has a format for tuples."""
    display = getattr(shell, "display_formatter", None)
    formatter = None if display is None else display.formatters.get("text/html")
    if formatter is not None and tuple not in formatter:
        formatter.for_type(tuple, _table)


def _table(value: tuple[Any, ...]) -> str | None:
    """Return the table of a tuple of axes; None for any other tuple."""
    if not any(isinstance(axis, Dim) for axis in value) or not all(isinstance(axis, Dim | int) for axis in value):
        return None
    # On first use: `import wyrm` stays fast.
    from wyrm.view.notebook import of_dims

    return of_dims(value)
