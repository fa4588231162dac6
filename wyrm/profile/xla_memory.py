"""`MemoryOfXla`: the bytes of a step on one device, as XLA planned them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wyrm.support.texts import bytes_text


@dataclass(frozen=True)
class MemoryOfXla:
    """The memory of a compiled step on one device, in bytes.

    `argument_bytes` are those of the parameters, the optimizer's state and the data of the steps that one call does;
    `result_bytes` those of its results, of which `shared_bytes` lie in the place of arguments. `temporary_bytes` are
    those of all that a step computes in between; XLA does not say which arrays share them.
    """

    argument_bytes: int
    result_bytes: int
    shared_bytes: int
    temporary_bytes: int

    @staticmethod
    def of(compiled: Any) -> MemoryOfXla | None:
        """Return the memory of a compiled function of JAX; None if the device's compiler does not tell it."""
        found = compiled.memory_analysis()
        if found is None:
            return None
        return MemoryOfXla(
            found.argument_size_in_bytes,
            found.output_size_in_bytes,
            found.alias_size_in_bytes,
            found.temp_size_in_bytes,
        )

    @property
    def total_bytes(self) -> int:
        """All of them, with those that results share with arguments counted once."""
        return self.argument_bytes + self.result_bytes - self.shared_bytes + self.temporary_bytes

    def __str__(self) -> str:
        """Return the bytes as a sentence."""
        return (
            f"memory of a step on one device, as XLA planned it: {bytes_text(self.total_bytes)}, of which "
            f"{bytes_text(self.temporary_bytes)} are temporary arrays, {bytes_text(self.argument_bytes)} arguments "
            f"(parameters, the optimizer's state and the data of several steps), and "
            f"{bytes_text(self.result_bytes - self.shared_bytes)} results that are not in the place of arguments"
        )
