"""The graph of a program for the JAX engine: what it computes, from which leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wyrm.engines.jax.checks import index_checks
from wyrm.engines.jax.integers import need_int64
from wyrm.engines.jax.precision import float64_node
from wyrm.engines.native.stages.decompose import share_residuals
from wyrm.engines.native.stages.deduplicate import deduplicate
from wyrm.engines.native.stages.differentiate import Targets, differentiate
from wyrm.engines.native.stages.pipeline import nodes
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.graph.base import BaseNode
from wyrm.graph.buffer import Buffer
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input, Parameter
from wyrm.ops.random.philox import COUNTERS


class JaxGraph:
    """A program's outputs and, with an optimizer, the gradients of its loss and the new values of its buffers.

    `trained` are the parameters with a gradient and then the buffers with an update. `inputs` take data in each call.
    `held` are the other leaves, except scalar constants, which are part of the code.
    """

    def __init__(self, outputs: Sequence[BaseNode], optimizer: OptimizerInterface | None) -> None:
        self.outputs, self.optimizer = list(outputs), optimizer
        self._given = Targets(self.outputs, optimizer)
        differentiated = differentiate(self._given)
        scheduled = deduplicate(replace(share_residuals(differentiated), original=differentiated.nodes))
        self.targets, self.schedule, self.ranges = scheduled.targets, scheduled.schedule, scheduled.ranges
        self._differentiated = differentiated
        # Indices that must be checked where they are computed, and so are results of the schedule too.
        self.checks = index_checks(self.schedule.nodes, self.ranges, self.schedule.representative)
        self.schedule.outputs += [check.indices for check in self.checks]
        computed = self.targets.gradients.keys() | self.targets.rows.keys()
        self.parameters: list[Parameter] = [p for p in (optimizer.parameters if optimizer else []) if p in computed]
        self.buffers: list[Buffer] = list(self.targets.buffer_updates)
        self.trained: list[Parameter | Buffer] = [*self.parameters, *self.buffers]
        leaves = [leaf for leaf in self.schedule.leaves if leaf not in COUNTERS]
        self.inputs: list[BaseNode] = [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput)]
        known = {*self.trained, *self.inputs}
        self.held = [
            leaf for leaf in leaves if leaf not in known and not (isinstance(leaf, Constant) and not leaf.dims)
        ]
        # Whether the graph computes in float64, or with integers beyond int32: JAX needs its 64-bit types for them.
        self.wide = float64_node([*self.schedule.nodes, *self.trained]) is not None or need_int64(
            self.schedule.nodes, self.ranges
        )

    def stages(self) -> dict[str, str]:
        """Return the graph as the user wrote it, with its gradients, and without repeated operations, as text."""
        return {
            "graph": nodes(self._given),
            "differentiate": nodes(self._differentiated),
            "deduplicate": nodes(self.targets),
        }
