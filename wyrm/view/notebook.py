"""What notebooks display: graphs as pages in a frame, models and shardings as tables, and typeset formulas.

Notebooks call `_repr_mimebundle_` of a value, and show its HTML if they can, else its text.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from wyrm.functions.tracing import name_of
from wyrm.graph.axes import Dim, Dims, axis_name, axis_size
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.schedule import Schedule
from wyrm.graph.text import names_of, text_of
from wyrm.graph.traversal import has_more_nodes
from wyrm.support.texts import encodable

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import ShardingTable
    from wyrm.functions.function import Function
    from wyrm.module import Module
    from wyrm.train.callbacks import History
    from wyrm.train.program import Program
    from wyrm.view.derivation import Row
    from wyrm.view.graph_data import Shown
    from wyrm.view.model_summary import Summary

# The most nodes of a page in a notebook, whose file contains the pages of all its cells.
LIMIT = 5_000
_FRAME = "width:100%;height:560px;border:1px solid rgba(128,128,128,0.4);border-radius:6px"
_CELL = "padding:3px 12px 3px 4px;white-space:nowrap"
_LEFT, _RIGHT = f"{_CELL};text-align:left", f"{_CELL};text-align:right;font-variant-numeric:tabular-nums"
# Of more than twice so many epochs, the first and the last ones are shown.
_EPOCHS = 10
# A line of code that is longer is cut.
_CODE = f"{_LEFT};max-width:36em;overflow:hidden;text-overflow:ellipsis"

Bundle = dict[str, str]


def of_node(node: BaseNode, include: object = None, exclude: object = None) -> Bundle:
    """Return the page of a node's graph in a frame; of a leaf, a table."""
    if not node.is_leaf:
        return _graph(node, [node], repr(node))
    rows = [
        ("name", node.name or ""),
        ("leaf", node.op_name()),
        ("axes", format_dims(node.dims)),
        ("dtype", str(node.dtype)),
        ("line", f"{node.location} {node.location.source}".rstrip()),
    ]
    return {"text/plain": repr(node), "text/html": table((), rows)}


def of_program(program: Program, include: object = None, exclude: object = None) -> Bundle:
    """Return the page of a program, with its loops and arrays, in a frame."""
    return _graph(program, program.outputs, repr(program))


def of_module(module: Module, include: object = None, exclude: object = None) -> Bundle:
    """Return the table of a module's layers."""
    from wyrm.view.model_summary import summary

    layers = summary(module)
    html = of_summary(layers)["text/html"] if layers.rows else f"<pre>{escape(repr(module))}</pre>"
    return {"text/plain": repr(module), "text/html": html}


def of_summary(summary: Summary, include: object = None, exclude: object = None) -> Bundle:
    """Return the table of a summary."""
    lines, numbers = summary.cells(), 2
    if summary.flops is None:
        lines, numbers = [line[:-1] for line in lines], 1
    head, *rows, total = lines
    notes = "".join(f"<p>{escape(note)}</p>" for note in summary.notes())
    return {"text/plain": repr(summary), "text/html": table(head, rows, total, numbers=numbers) + notes}


def of_sharding(sharding: ShardingTable, include: object = None, exclude: object = None) -> Bundle:
    """Return the table of a sharding."""
    head, *rows, total = sharding.cells()
    return {"text/plain": repr(sharding), "text/html": table(head, rows, total, numbers=2)}


def of_function(function: Function, include: object = None, exclude: object = None) -> Bundle:
    """Return the page of the graph of a function's last call; before the first one, how to see it."""
    last = function._last
    if last is not None and not last.trace.open and any(not node.is_leaf for node in last.trace.outputs):
        return _graph(list(last.trace.outputs), last.trace.outputs, repr(function))
    rows = [
        ("function", f"{name_of(function)}{inspect.signature(function.function)}"),
        ("engine", function.engine),
        ("graph", "after the first call, for the shapes of its arguments"),
    ]
    return {"text/plain": repr(function), "text/html": table((), rows)}


def of_dim(axis: Dim, include: object = None, exclude: object = None) -> Bundle:
    """Return the table of an axis."""
    return {"text/plain": repr(axis), "text/html": of_dims((axis,))}


def of_history(history: History, include: object = None, exclude: object = None) -> Bundle:
    """Return the table of a training, a line for each epoch; of a long one the first and the last epochs."""
    names, epochs = list(history), history.epochs
    chosen = range(epochs) if epochs <= 2 * _EPOCHS else [*range(_EPOCHS), *range(epochs - _EPOCHS, epochs)]
    rows: list[Sequence[str]] = [(str(i + 1), *(f"{history[name][i]:.6g}" for name in names)) for i in chosen]
    if len(chosen) < epochs:
        rows.insert(_EPOCHS, ["..."] * (1 + len(names)))
    html = table(("epoch", *names), rows, numbers=len(names)) if names else ""
    return {"text/plain": repr(history), "text/html": f"{html}<p>{escape(history.stopped)}, {epochs:,} epochs</p>"}


def of_dims(dims: Dims) -> str:
    """Return the table of a tuple of axes."""
    rows = []
    for number, axis in enumerate(dims):
        size = axis_size(axis)
        rows.append((str(number), axis_name(axis) or "unnamed", "from the data" if size is None else f"{size:,}"))
    return table(("", "axis", "size"), rows, numbers=1)


def derivation_table(rows: Iterable[Row]) -> str:
    """Return the table of a derivation, whose equations are MathML."""
    body = "".join(
        f'<tr><td style="{_LEFT}">{_math(left)}</td><td style="{_LEFT}">{escape(dims)}</td>'
        f'<td style="{_LEFT}">{_math(right)}</td><td style="{_CODE}">{_code(line)}</td></tr>'
        for left, dims, right, line in rows
    )
    titles = ("forward, top to bottom", "axes", "backward, bottom to top", "line")
    return encodable(f"<table>{_head(titles, 0)}<tbody>{body}</tbody></table>")


def _code(text: str) -> str:
    # Notebooks would wrap it.
    return f'<code style="white-space:nowrap">{escape(text)}</code>' if text else ""


def _math(text: str) -> str:
    return f'<math displaystyle="true"><mrow>{text}</mrow></math>' if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], total: Sequence[str] = (), *, numbers: int = 0) -> str:
    """Return an HTML table of texts; the last `numbers` columns are aligned to the right.

    >>> from wyrm.view.notebook import table
    >>> table((), [("<x>",)])
    '<table><tbody><tr><td style="...">&lt;x&gt;</td></tr></tbody></table>'
    """
    body = "".join(_table_line(row, "td", numbers) for row in rows)
    foot = f"<tfoot>{_table_line(total, 'th', numbers)}</tfoot>" if total else ""
    return encodable(f"<table>{_head(head, numbers)}<tbody>{body}</tbody>{foot}</table>")


def _head(titles: Sequence[str], numbers: int) -> str:
    return f"<thead>{_table_line(titles, 'th', numbers)}</thead>" if titles else ""


def _table_line(cells: Sequence[str], tag: str, numbers: int) -> str:
    styles = [_LEFT] * (len(cells) - numbers) + [_RIGHT] * numbers
    written = (f'<{tag} style="{style}">{escape(cell)}</{tag}>' for cell, style in zip(cells, styles, strict=True))
    return f"<tr>{''.join(written)}</tr>"


def _graph(shown: Shown, outputs: Sequence[BaseNode], plain: str) -> Bundle:
    from wyrm.view import graph_data
    from wyrm.view.html import graph_html

    if has_more_nodes(outputs, LIMIT):
        opens = "wy.view.open(...) opens its page in a browser of its own"
        how = "wy.view.to_text(...) lists them" if has_more_nodes(outputs, graph_data.LIMIT) else opens
        return {"text/plain": f"{plain}\nThe graph has more than {LIMIT:,} nodes, the most in a notebook; {how}."}
    data = graph_data.graph_data(shown)
    # Sandboxed: the page runs its scripts, and sees neither the notebook nor its server.
    return {
        "text/plain": plain,
        "text/html": f'<iframe srcdoc="{escape(graph_html(data))}" sandbox="allow-scripts" loading="lazy" '
        f'title="The graph of {escape(data["title"])}" style="{_FRAME}"></iframe>',
    }


def _schedule(outputs: BaseNode | Sequence[BaseNode]) -> Schedule:
    """Return the schedule of one node or several; raise `TypeError` for anything else, such as a module."""
    nodes = [outputs] if isinstance(outputs, BaseNode) else outputs
    if not isinstance(nodes, Sequence) or not all(isinstance(node, BaseNode) for node in nodes):
        raise TypeError(f"a graph is shown of a node or several, as of model(x), not of {type(outputs).__name__}")
    return Schedule(nodes)


def to_text(outputs: BaseNode | Sequence[BaseNode]) -> str:
    """Return the graph as it is computed, without duplicates; each line has axes, dtype and the user's line.

    >>> x = wy.Input(name="x")
    >>> print(to_text((2.0 * x).tanh()))  # doctest: +ELLIPSIS
    x   = input             () float32
    %2  = multiply(2.0, x)  () float32  # ...
    %3  = tanh(%2)          () float32  # ...
    """
    schedule = _schedule(outputs)
    return text_of(schedule.nodes, schedule.parents)


def to_dot(outputs: BaseNode | Sequence[BaseNode]) -> str:
    """Return the graph in Graphviz's DOT language, with leaves as boxes and operations as ellipses.

    >>> print(to_dot(wy.Input(name="x").tanh()).count("->"))
    1
    """
    schedule = _schedule(outputs)
    names = names_of(schedule.nodes)
    position = {node: number for number, node in enumerate(schedule.nodes)}
    lines = []
    for node, number in position.items():
        leaf = node.is_leaf
        title = names[node] if leaf or node.name is not None else node.op_name()
        escaped = title.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  n{number} [label="{escaped}\\n{format_dims(node.dims)}"{", shape=box" if leaf else ""}];')
        lines += [f"  n{position[parent]} -> n{number};" for parent in schedule.parents(node)]
    return encodable("\n".join(["digraph {", *lines, "}"]))
