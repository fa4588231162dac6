"""A program as text after each stage of its compilation."""

from __future__ import annotations

from wyrm.train.runner import Runner


def stages(runner: Runner) -> dict[str, str]:
    """What a program is after each stage, by the names of the stages, in order."""
    machine = runner.listing()
    return runner.graph.stages() | {
        "plan memory": runner.memory(), "loop program": "\n\n".join(machine.loop_programs), "emit": machine.llvm
    }  # fmt: skip
