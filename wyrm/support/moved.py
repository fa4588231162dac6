"""Errors for imports of modules of earlier layouts, which pickles name too, that say where the modules are now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

# The rooms of the earlier layout that are gone, each with the room that has its contents now.
_ROOMS = {
    "_bind": "wyrm.graph",
    "_files": "wyrm.support",
    "_garbage_collection": "wyrm.support",
    "_interrupts": "wyrm.support",
    "_ipython": "wyrm.graph",
    "_lazy_imports": "wyrm.support",
    "backends": "wyrm.engines",
    "compiler": "wyrm.engines.native.stages",
    "foreign_names": "wyrm.support.foreign_names",
    "grad": "wyrm.ops.gradients",
    "ir": "wyrm.engines.native.ir",
    "kernels": "wyrm.engines.native.kernels",
    "node": "wyrm.graph",
    "schedule": "wyrm.graph",
    "types": "wyrm.graph",
}
# The rooms that lost only some of their modules.
_PARTS = {"ops": "a folder of wyrm.ops, one for each family of ops", "train": "wyrm.engines"}
# Modules that became part of another one of their room.
_JOINED = {
    "data": "columns files generated joined movielens tokens",
    "functions": (
        "complex_parts control cumulative grids op_functions padding products reduction_types segment statistics"
    ),
    "io": "reading shards",
    "jax": "arguments",
    "linalg": "norms",
    "losses": "checks likelihood temporal weights",
    "metrics": "confusion",
    "nn": (
        "activation_layers batch_normalization embedding_bag flatten gated_recurrent group_normalization "
        "initial_states lstm_state module_calls positional_encoding recurrent_outputs spatial token_sampling"
    ),
    "optim": "adafactor adam_variants averaging gradients group_rules groups layerwise muon rule saving whole",
    "profile": "clock page texts trace",
    "special": "of_order",
    "view": "expressions flops graph_page loop_bodies pages text",
    "train": "checkpointing history",
    "watch": "checks connections guard lines pace page probe",
}


# Modules that stand elsewhere now.
_ELSEWHERE = {"nn.module": "wyrm.module"}


class _Moved:
    """The last finder of modules. It finds none, but raises an error for a module of the earlier layout."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        package, _, rest = name.partition(".")
        room, _, module = rest.partition(".")
        place = _PARTS.get(room) if module else None
        if module in _JOINED.get(room, "").split():
            place = f"other modules of wyrm.{room}"
        place = _ELSEWHERE.get(rest, _ROOMS.get(room, place))
        if package == "wyrm" and place is not None:
            raise ModuleNotFoundError(
                f"No module named {name!r}: modules of this room of earlier versions are in {place} now. A pickle that "
                f"names one does not load; arrays that wy.io.save or Module.save wrote do.",
                name=name,
            )


def tell_of_moved_modules() -> None:
    """Make imports of modules of the earlier layout say where they are."""
    sys.meta_path.append(_Moved)
