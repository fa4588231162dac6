"""BPR on MovieLens 100K with one process and with two on this machine: the time of a step, and the MRR.

    python -m bench.recommender_processes --rounds 3

Two processes have a core each and exchange by Gloo. They divide the batch, the columns of the tables, the rows of items
and the batch, or the batch with local steps between averages. One process has all cores. The MRR is that of
`examples/bpr_movielens.py`, with the new users folded in by one process. Times are minima of epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import MOVIELENS, has_movielens

DIMENSIONS, FOLDED_EPOCHS = 32, 50
# What two processes divide, and the local steps between averages.
WAYS = {"batch": ("batch", 1), "factors": ("factors", 1), "rows": ("rows", 1), "16 local steps": ("batch", 16)}


def worker(options: dict[str, Any]) -> None:
    """Train as one process; the first writes the seconds of a step and the MRR."""
    if options["processes"] > 1:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[options["process"] :: options["processes"]] or cores)
    import jax

    import wyrm as wy

    class Batch(wy.Dim): ...

    class Users(wy.Dim): ...

    class Items(wy.Dim): ...

    class Factors(wy.Dim): ...

    if options["processes"] > 1:
        wy.jax.initialize(options["coordinator"], options["processes"], options["process"])
    wy.nn.seed(0)
    data = wy.data.read_movielens(MOVIELENS)
    known, new = wy.data.split_by_group(data.dataset(), group="users", test_fraction=0.2, seed=0)
    folded_in, held_out = wy.data.train_test_split(new, test_fraction=0.2, seed=0)
    vectors = wy.nn.initializers.Normal(0.1)
    batch, items = Batch(), Items(data.item_count)
    of_users = wy.nn.Embedding(Users(data.user_count), Factors(DIMENSIONS), initializer=vectors)
    of_items = wy.nn.Embedding(items, Factors(DIMENSIONS), initializer=vectors)
    biases = wy.Parameter.zeros((items,), name="biases")
    user, positive = (wy.IndexInput(dims=(batch,), name=name) for name in ("users", "positives"))
    negative = wy.random.index(items, (batch,), seed=0)
    advantage = of_users(user).vector_dot(of_items(positive)) - of_users(user).vector_dot(of_items(negative))
    loss = -(advantage + biases.index(positive) - biases.index(negative)).sigmoid().mean()
    optimizer = wy.optim.Adagrad(loss.parameters(), learning_rate=options["rate"])
    where: dict[str, Any] = {}
    if options["processes"] > 1:
        way, local = WAYS[options["way"]]
        divided: dict[str, list[type[wy.Dim]]] = {"batch": [Batch], "factors": [Factors], "rows": [Items, Batch]}
        axes = dict.fromkeys(divided[way], "data")
        where = {"mesh": jax.make_mesh((options["processes"],), ("data",)), "sharding": axes, "local_steps": local}
    program: Any = wy.compile(loss, optimizer, engine="jax", **where)
    columns, seconds = {user: known["users"], positive: known["items"]}, []
    steps = -(-len(known["users"]) // options["batch"])
    for _ in range(options["epochs"]):
        begin = time.perf_counter()
        program.epoch(columns, batch_size=options["batch"], shuffle=True, seed=0)
        seconds.append((time.perf_counter() - begin) / steps)
    wy.jax.gather(program)
    if options["process"] == 0:
        found = {"seconds": min(seconds), "mrr": _mrr(wy, of_items.weight.value, biases.value, folded_in, held_out)}
        Path(options["output"]).write_text(json.dumps(found), encoding="utf-8")


def _mrr(wy: Any, films: Any, biases: Any, folded_in: Any, held_out: Any) -> float:
    """Return the mean reciprocal rank of held-out films of new users, whose vectors are trained with fixed films."""
    people = np.unique(folded_in["users"])
    rows, of_held_out = (np.searchsorted(people, part["users"]) for part in (folded_in, held_out))
    batch, table, bias = wy.Dim(), wy.Constant(films), wy.Constant(biases)
    user, positive = (wy.IndexInput(dims=(batch,), name=name) for name in ("users", "positives"))
    negative = wy.random.index(len(films), (batch,), seed=0)
    vectors = wy.nn.Embedding(len(people), films.shape[1], initializer=wy.nn.initializers.Normal(0.1))
    advantage = vectors(user).vector_dot(table[positive] - table[negative]) + bias[positive] - bias[negative]
    loss = -advantage.sigmoid().mean()
    train = wy.compile(loss, wy.optim.Adagrad(loss.parameters(), learning_rate=0.1))
    for _ in range(FOLDED_EPOCHS):
        train.epoch({user: rows, positive: folded_in["items"]}, batch_size=10, shuffle=True, seed=0)
    scores = vectors.weight.value @ films.T + biases
    seen = np.zeros(scores.shape, np.bool_)
    seen[rows, folded_in["items"]] = True
    found: float = wy.metrics.mean_reciprocal_rank(scores[of_held_out], held_out["items"], exclude=seen[of_held_out])
    return found


def measured(processes: int, way: str, batch: int, epochs: int, rate: float) -> dict[str, float]:
    """Return what processes that train together find."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{listening.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        options = {
            "processes": processes, "way": way, "batch": batch, "epochs": epochs, "rate": rate,
            "coordinator": coordinator, "output": str(output),
        }  # fmt: skip
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.recommender_processes", "worker", json.dumps({**options, "process": k})],
                env=os.environ | {"JAX_PLATFORMS": "cpu"},
            )
            for k in range(processes)
        ]
        for each in running:
            if each.wait():
                sys.exit(f"a process ended with code {each.returncode}")
        found: dict[str, float] = json.loads(output.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Measure, or be a worker."""
    if sys.argv[1:2] == ["worker"]:
        worker(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 4096])
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate of Adagrad")
    options = parser.parse_args()
    if not has_movielens("recommender_processes"):
        return
    for batch in options.batches:
        found: dict[str, list[dict[str, float]]] = {}
        for _ in range(options.rounds):
            for name in ("one process", *WAYS):
                processes = 1 if name == "one process" else 2
                found.setdefault(name, []).append(measured(processes, name, batch, options.epochs, options.rate))
        best = {name: min(each["seconds"] for each in runs) for name, runs in found.items()}
        for name, seconds in best.items():
            print(
                f"batch {batch:5}  {name:16}  {1e3 * seconds:7.3f} ms a step  {seconds / best['one process']:5.2f}x  "
                f"MRR {found[name][0]['mrr']:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
