"""The graph of a program for the JAX engine: what it computes, from which leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from wyrm.compiler.program_graph import DEDUPLICATE, DIFFERENTIATE, ProgramGraph, Stage
from wyrm.engines.jax.checks import index_checks
from wyrm.engines.jax.integers import need_int64
from wyrm.engines.jax.precision import float64_node
from wyrm.engines.native.stages.decompose import share_residuals
from wyrm.engines.native.stages.differentiate import Targets
from wyrm.engines.native.stages.updates import OptimizerInterface
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Constant
from wyrm.ops.random.philox import COUNTERS


def _shared(targets: Targets) -> Targets:
    return replace(share_residuals(targets), original=targets.nodes)


class JaxGraph(ProgramGraph):
    """A program's graph, with the leaves that it reads.

    `held` are the leaves that are neither trained nor inputs, except scalar constants, which are part of the code.
    """

    STAGES: ClassVar[Sequence[Stage]] = (DIFFERENTIATE, Stage("share residuals", _shared, None), DEDUPLICATE)

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        super().__init__(outputs, optimizer)
        # Indices that must be checked where they are computed, and so are results of the schedule too.
        self.checks = index_checks(self.schedule.nodes, self.ranges, self.schedule.representative)
        self.schedule.outputs += [check.indices for check in self.checks]
        known = {*self.trained, *self.inputs, *COUNTERS}
        self.held = [
            leaf
            for leaf in self.schedule.leaves
            if leaf not in known and not (isinstance(leaf, Constant) and not leaf.dims)
        ]
        # Whether the graph computes in float64, or with integers beyond int32: JAX needs its 64-bit types for them.
        self.wide = float64_node([*self.schedule.nodes, *self.trained]) is not None or need_int64(
            self.schedule.nodes, self.ranges
        )
