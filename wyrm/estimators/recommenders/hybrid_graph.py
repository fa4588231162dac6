"""The graph of `Hybrid`: scores of pairs from sums over features, and the losses that rank items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import wyrm.losses as losses
import wyrm.random as random
from wyrm.estimators.trials import Model
from wyrm.graph.axes import Dim
from wyrm.graph.index_leaves import HeldIndices, IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.node import IndexNode
from wyrm.graph.parameters import ResizableParameter
from wyrm.losses.ranking import warp_by_weights
from wyrm.optim import Adagrad


class _Batch(Dim): ...


class _Axes:
    """The axes of the tables of one side."""

    def __init__(self, kind: str) -> None:
        self.ids, self.tags, self.width = (type(f"{kind}_{name}", (Dim,), {})() for name in ("ids", "tags", "width"))


@dataclass(frozen=True)
class HybridForm:
    """What the code of a model depends on. `tagged`: the sides that have tags, "user" or "item"."""

    loss: str
    factors: int
    tries: int
    tagged: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the trained arrays: users have biases where scores of different users are compared."""
        return tuple(
            f"{kind}.{table}{bias}"
            for kind in ("user", "item")
            for table in (("own", "tags") if kind in self.tagged else ("own",))
            for bias in (("", "_bias") if kind == "item" or self.loss == "logistic" else ("",))
        )

    def build(self) -> Model:
        """Return the graph of the loss of a batch of interactions."""
        batch, axes = _Batch(), {kind: _Axes(kind) for kind in ("user", "item")}
        tables: dict[str, Any] = {}
        for name in self.names:
            kind, table = name.split(".")
            rows: Any = axes[kind].tags if table.startswith("tags") else axes[kind].ids
            shape = (1,) if name.endswith("_bias") else (1, self.factors)
            tables[name] = ResizableParameter(np.zeros(shape, np.float32), (rows, *shape[1:]), name=name)
        held: dict[str, Any] = {
            "spans": HeldIndices(dims=(type("_Users", (Dim,), {})(), 2), name="spans"),
            "excluded": HeldIndices(dims=(type("_Excluded", (Dim,), {})(),), name="excluded"),
        }
        if self.loss == "warp":
            held["weights"] = Input(dims=(self.tries + 1,), name="weights")
        for kind in self.tagged:
            dims: Any = (axes[kind].ids, axes[kind].width)
            held[f"{kind}.places"] = HeldIndices(dims=dims, name="places")
            held[f"{kind}.values"] = Input(dims=dims, name="values")
        inputs: dict[str, Any] = {
            name: IndexInput(dims=(batch,), name=name) for name in ("user", "item", "row")
        } | {"weight": Input(dims=(batch,), name="weight")}  # fmt: skip

        def of(kind: str, rows: IndexNode) -> tuple[Any, Any]:
            """Return the vectors of rows, with the axis of factors at the end, and their biases, or 0."""
            own, bias = tables[f"{kind}.own"].index(rows), tables.get(f"{kind}.own_bias")
            biases: Any = 0.0 if bias is None else bias.index(rows)
            if kind in self.tagged:
                places, values = held[f"{kind}.places"][rows], held[f"{kind}.values"][rows]
                own = own + (tables[f"{kind}.tags"].index(places) * values.expand_dims(-1)).sum(axis=-2)
                if bias is not None:
                    biases = biases + (tables[f"{kind}.tags_bias"].index(places) * values).sum(axis=-1)
            return own, biases

        vector, user_bias = of("user", inputs["user"].expand_dims(1))

        def score(items: IndexNode) -> Any:
            vectors, biases = of("item", items)
            return (vector * vectors).sum(axis=-1) + biases + user_bias

        liked, weight = score(inputs["item"].expand_dims(1)), inputs["weight"]
        count, exclude = axes["item"].ids, (held["spans"], held["excluded"])
        draws: Any = (batch, self.tries if self.loss == "warp" else 1)
        drawn = random.index(count, draws, exclude=exclude, rows=inputs["row"], stream=0)
        if self.loss == "warp":
            each = warp_by_weights(liked[:, 0], score, held["weights"], drawn, margin=1.0)
        elif self.loss == "bpr":
            each = losses.bpr(liked[:, 0], score(drawn)[:, 0], reduction="none")
        else:
            each = (liked[:, 0] * -weight.sign()).softplus() + score(drawn)[:, 0].softplus()
        loss: Any = (each * weight.abs()).sum()
        optimizer = partial(Adagrad, initial_accumulator=1.0)
        return Model(inputs, loss, loss, loss, list(tables.values()), held, optimizer)
