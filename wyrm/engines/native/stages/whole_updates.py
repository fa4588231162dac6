"""Rules over whole parameters as functions of the program around them."""

from __future__ import annotations

from wyrm.engines.native.ir.arrays import ArrayFunction, CallStatement, Name, Statement
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.decompose import expand
from wyrm.engines.native.stages.differentiate import Targets
from wyrm.engines.native.stages.invocations import FlatArgument
from wyrm.engines.native.stages.loops import ArrayBuffer
from wyrm.engines.native.stages.lower import Lowering
from wyrm.engines.native.stages.materialize import materialize
from wyrm.engines.native.stages.naming import UniqueNames
from wyrm.engines.native.stages.op_kernels import OpKernels
from wyrm.engines.native.stages.runtime import copied
from wyrm.engines.native.stages.source import LoopSource, Source
from wyrm.engines.native.stages.updates import UpdateRule
from wyrm.errors import RegistrationError
from wyrm.graph.ranges import Ranges
from wyrm.graph.schedule import Schedule


class WholeUpdate(Source):
    """The function of a rule over whole parameters: it computes the new values, and then copies them to the arrays."""

    def __init__(self, rule: UpdateRule, names: UniqueNames, op_kernels: OpKernels, loop_of: LoopSource) -> None:
        replacements = expand(rule.outputs)
        schedule = Schedule([replacements[output] for output in rule.outputs])
        lowering = Lowering(schedule, Targets([]), Ranges(schedule.nodes), names)
        # Own arrays, because a new state may be another old one.
        self._new = [lowering.own_array(output) for output in schedule.outputs]
        lowering.outputs = self._new
        self._targets = [lowering.leaf(leaf) for leaf in (rule.parameter, *rule.state.values())]
        self._name = names("update_whole")
        super().__init__(materialize(lowering), (), op_kernels, loop_of, WholeUpdate)
        if self.evaluated:
            raise RegistrationError(
                f"an optimizer's rule uses {self.evaluated[0].node.op_name()}, which has no native form; train with "
                f"backward() and step(), or use other ops"
            )

    def _routine(self) -> ArrayRoutine:
        statements, spoiling = list[Statement](), self._invalid_fills()
        for invocation in self.invocations:
            statements += [*spoiling.get(id(invocation), []), self._call_of(invocation)]
        for new, target in zip(self._new, self._targets, strict=True):
            statements.append(CallStatement(copied, (self._flat(new), self._flat(target))))
        return ArrayRoutine(ArrayFunction(self._name, tuple(self.arguments), tuple(statements)), calls_shared=True)

    def _flat(self, buffer: ArrayBuffer) -> Name:
        return self._use(FlatArgument(self.lowering.name(f"flat_{buffer.name}"), buffer, 1))
