"""The tests of `pytest -m quick`: some of every room, for an answer in 90 seconds on two cores.

They take few compilations and few processes, and every op's values and gradients in the reference engine. An entry is a
folder, a file or `file::test` below `tests`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent

QUICK = [
    "graph",
    "ops/test_ops_every.py", "ops/test_ops_rules.py", "ops/test_ops_shapes.py", "ops/test_ops_formula.py",
    "ops/gradients/test_parts.py", "ops/gradients/test_reverse.py", "ops/gradients/test_duality.py",
    "engines/numpy/test_cache.py", "engines/numpy/test_changes.py", "engines/numpy/test_roots.py",
    "engines/numpy/test_sizes.py", "engines/native/test_ops.py::test_the_compiled_loop_gives_the_same",
    "engines/native/test_backward.py", "engines/native/test_refusals.py", "engines/native/test_repeated_call.py",
    "engines/native/test_rules.py", "engines/native/test_state.py", "engines/native/test_store.py",
    "engines/native/test_training.py", "engines/native/kernels/test_errors.py",
    "engines/native/kernels/test_statements.py", "engines/jax/test_device_state.py",
    "engines/jax/test_pass_through.py", "engines/jax/test_philox.py", "engines/jax/test_sharding.py",
    "engines/jax/test_untraceable.py",
    "train/test_batches.py", "train/test_callbacks.py", "train/test_epoch_options.py", "train/test_evaluation.py",
    "train/test_fit.py",
    "nn/test_nn_embedding.py", "nn/test_nn_layer.py", "nn/test_nn_linear.py", "nn/test_nn_module.py",
    "nn/test_nn_normalization.py", "nn/test_nn_options.py", "nn/test_nn_recurrent.py", "nn/test_nn_room.py",
    "losses/test_losses_errors.py", "losses/test_losses_values.py",
    "optim/test_optim_groups.py", "optim/test_optim_options.py", "optim/test_optim_rule.py",
    "optim/test_optim_schedules.py",
    "functions/test_custom.py", "functions/test_methods.py", "functions/test_modules.py",
    "functions/test_numpy_protocol.py",
    "linalg/test_linalg.py",
    "special/test_special_of_order.py",
    "random/test_random_steps.py",
    "data/test_data_dataset.py", "data/test_data_loader.py", "data/test_data_split.py",
    "metrics/test_metrics_classification.py", "metrics/test_metrics_running.py",
    "io/test_io_arrays.py", "io/test_io_checkpoint.py",
    "jax/test_jax_arguments.py",
    "view/test_view_summary.py", "view/test_view_text.py",
    "profile/test_profile_work.py",
    "watch/test_watch_files.py",
    "testing",
    "fuzz/test_fuzz.py::test_every_production_can_be_built", "fuzz/test_running_again.py",
    "bench/test_bench_harness.py",
    "test_attributes.py", "test_bad_input.py", "test_declare.py", "test_engines.py", "test_readme.py",
    "test_structure.py", "test_import.py::test_import_wyrm_imports_nothing_heavy",
]  # fmt: skip


@cache
def entries_of(path: Path) -> list[str]:
    """Return the entries that take a file or a part of it."""
    name = path.relative_to(ROOT).as_posix()
    return [entry for entry in QUICK if f"{name}/".startswith(f"{entry.partition('::')[0]}/")]


def is_quick(path: Path, test: str) -> bool:
    """Return whether a test of a file is quick."""
    return any(entry.partition("::")[2] in ("", test) for entry in entries_of(path))


def missing() -> Iterable[str]:
    """Yield the entries whose file is not there."""
    return (entry for entry in QUICK if not (ROOT / entry.partition("::")[0]).exists())
