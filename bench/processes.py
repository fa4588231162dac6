"""GPT-2 on two processes of this machine: the time of a step, and what happens when one of them is killed.

    python -m bench.processes time --rounds 3
    python -m bench.processes kill --kills 20

`time` trains on the same global batches with one process and with two, in turns, and prints the times of a step, the
largest relative difference of a loss, and whether the runs of two processes agree in every bit. `kill` kills one of two
processes at a random step, measures how long the other one lives, starts both again from the last checkpoint, and
compares every loss with those of a training that nobody killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpt2 import BETAS, EPSILON, RATE, SIZES, Size

SMALL = Size(vocabulary=256, context=16, layers=1, heads=2, width=16, batch=8)
WARM_UP = 3


class Worker:
    """One process: a GPT-2, and `steps` batches of which it has its own rows; each loss is a line of its log."""

    def __init__(self, options: dict[str, Any]) -> None:
        if options["processes"] > 1:
            # Each process has its own cores, as a cluster's scheduler gives them.
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, cores[options["process"] :: options["processes"]] or cores)
        import jax

        import wyrm as wy

        class Batch(wy.Dim): ...

        if options["processes"] > 1:
            wy.jax.initialize(options["coordinator"], options["processes"], options["process"])
        self.options, self.size = options, SMALL if options["small"] else SIZES["default"]
        size, rate = self.size, options["dropout"]
        wy.nn.seed(0)
        config = wy.nn.GPT2Config(
            vocab_size=size.vocabulary, n_positions=size.context, n_embd=size.width, n_layer=size.layers,
            n_head=size.heads, resid_pdrop=rate, embd_pdrop=rate, attn_pdrop=rate,
        )  # fmt: skip
        batch = Batch()
        self.inputs = [wy.IndexInput(dims=(batch, size.context), name=name) for name in ("tokens", "targets")]
        loss = wy.nn.GPT2(config).loss(*self.inputs)
        optimizer = wy.optim.AdamW(loss.parameters(), RATE, betas=BETAS, epsilon=EPSILON, max_norm=1.0)
        axes: dict[type[wy.Dim], str] = {Batch: "data"}
        if options["fsdp"]:
            from wyrm.nn.gpt2_axes import Embed

            axes[Embed] = "data"
        mesh = jax.make_mesh((len(jax.devices()),), ("data",))
        self.program = wy.compile(loss, optimizer, engine="jax", mesh=mesh, sharding=axes)

    def train(self) -> None:
        """Train to the last step, from the latest checkpoint if there is one; log the losses and the seconds."""
        import wyrm as wy

        options, size = self.options, self.size
        rows = wy.jax.part_of_process(self.program).rows(size.batch)
        folder = options["folder"]
        if folder and wy.jax.latest_step(folder) is not None:
            wy.jax.restore(self.program, folder)
        with Path(options["log"]).open("w", encoding="utf-8") as log:
            for step in range(self.program.state_dict()["steps"], options["steps"]):
                drawn = np.random.default_rng(step).integers(0, size.vocabulary, (size.batch, size.context + 1))[rows]
                columns = dict(zip(self.inputs, (drawn[:, :-1], drawn[:, 1:]), strict=True))
                start = time.perf_counter()
                loss = self.program.epoch(iter([columns]))
                print(step, loss.hex(), time.perf_counter() - start, file=log, flush=True)
                if folder and (step + 1) % options["every"] == 0:
                    wy.jax.save(self.program, folder)


@contextmanager
def started(processes: int, place: Path, /, **options: Any) -> Iterator[list[subprocess.Popen[str]]]:
    """Start workers; those that still run are killed at the end of the context."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{listening.getsockname()[1]}"
    running = []
    for process in range(processes):
        log = log_of(place, process)
        log.unlink(missing_ok=True)
        given = {"processes": processes, "process": process, "coordinator": coordinator, "log": str(log), **options}
        command = [sys.executable, "-m", "bench.processes", "worker", json.dumps(given)]
        errors = (place / f"errors-{process}").open("w", encoding="utf-8")
        with errors:
            running.append(
                subprocess.Popen(
                    command,
                    env=os.environ | {"JAX_PLATFORMS": "cpu"},
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    text=True,
                )
            )
    try:
        yield running
    finally:
        for worker in running:
            worker.kill()
            worker.wait()


def log_of(folder: Path, process: int) -> Path:
    """Return the log of a process."""
    return folder / f"log-{process}"


def logged(log: Path) -> dict[int, tuple[str, float]]:
    """Return the loss and the seconds of each step that a log has, complete lines only."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    lines = (line.split() for line in text.split("\n")[:-1])
    return {int(step): (loss, float(seconds)) for step, loss, seconds in lines}


def finish(processes: int, place: Path, /, **options: Any) -> dict[int, tuple[str, float]]:
    """Train to the end; return the log, which must be the same for all processes but for the times."""
    with started(processes, place, **options) as running:
        for process, worker in enumerate(running):
            if worker.wait():
                sys.exit((place / f"errors-{process}").read_text(encoding="utf-8"))
    logs = [logged(log_of(place, process)) for process in range(processes)]
    for log in logs[1:]:
        assert losses(log) == losses(logs[0]), "the processes report different losses"
    return logs[0]


def losses(log: dict[int, tuple[str, float]]) -> dict[int, str]:
    """Return the losses of a log, as hexadecimal numbers."""
    return {step: loss for step, (loss, _) in log.items()}


def measure_time(rounds: int, dropout: float, fsdp: bool) -> None:
    """Print the times of a step with one process and with two, and how their losses differ."""
    options = {"small": False, "dropout": dropout, "fsdp": fsdp, "steps": 20 + WARM_UP, "folder": "", "every": 1}
    seconds: dict[int, list[float]] = {1: [], 2: []}
    logs: dict[int, list[dict[int, str]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for processes in (1, 2):
                log = finish(processes, Path(folder), **options)
                logs[processes].append(losses(log))
                seconds[processes].append(float(np.median([log[step][1] for step in range(WARM_UP, len(log))])))
    for processes, times in seconds.items():
        shown = ", ".join(f"{1000 * each:.0f}" for each in times)
        print(f"{processes} process{'es' if processes > 1 else '  '}: median step of each round {shown} ms")
    print(f"ratio of the best rounds: {min(seconds[2]) / min(seconds[1]):.3f}")
    one, two = ([float.fromhex(loss) for loss in logs[processes][0].values()] for processes in (1, 2))
    print(f"largest relative difference of a loss: {np.max(np.abs(np.subtract(two, one) / one)):.1e}")
    print(f"runs of two processes agree in every bit: {all(log == logs[2][0] for log in logs[2])}")


def measure_kills(kills: int, stops: int, steps: int, fsdp: bool) -> None:
    """Kill one of two processes `kills` times, and stop one `stops` times as a broken network does."""
    options = {"small": True, "dropout": 0.2, "fsdp": fsdp, "steps": steps, "every": 7}
    choose = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = losses(finish(2, folder, **options, folder=""))
        print("  kill  step  victim  ended after  exit code  how the other one ended  went on from  exact", flush=True)
        ended = []
        for kill in range(kills + stops):
            checkpoints, victim, at = (
                str(folder / f"checkpoints-{kill}"),
                choose.randrange(2),
                choose.randrange(2, steps),
            )
            how = signal.SIGKILL if kill < kills else signal.SIGSTOP
            with started(2, folder, **options, folder=checkpoints) as running:
                while len(logged(log_of(folder, victim))) < at and running[victim].poll() is None:
                    time.sleep(0.005)
                time.sleep(choose.random() * 0.02)
                start = time.perf_counter()
                running[victim].send_signal(how)
                code = running[1 - victim].wait(timeout=120)
                seconds = time.perf_counter() - start
            before = losses(logged(log_of(folder, victim)))
            text = (folder / f"errors-{1 - victim}").read_text(encoding="utf-8")
            after = losses(finish(2, folder, **options, folder=checkpoints))
            exact = (before | after) == whole and all(whole[step] == loss for step, loss in before.items())
            clear = "ProcessLost" if "ProcessLost" in text else "JAX" if "another task died" in text else "unclear"
            if clear == "unclear":
                print(text, file=sys.stderr)
            ended.append((seconds, code != 0 and clear != "unclear", exact))
            print(
                f"{kill + 1:6}  {len(before):4}  {victim:6}  {seconds:9.2f} s  {code:9}  {clear:>23}  "
                f"{min(after, default=steps):12}  {exact}{'' if how == signal.SIGKILL else '  (stopped, not killed)'}",
                flush=True,
            )
        print(
            f"clear ends: {sum(clear for _, clear, _ in ended)} of {len(ended)}, the slowest after "
            f"{max(each[0] for each in ended):.1f} s; exact resumptions: {sum(exact for *_, exact in ended)}"
        )


def main() -> None:
    """Measure, or be a worker."""
    if sys.argv[1:2] == ["worker"]:
        Worker(json.loads(sys.argv[2])).train()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "kill"])
    parser.add_argument("--rounds", type=int, default=3, help="of `time`: runs of each number of processes")
    parser.add_argument("--dropout", type=float, default=0.0, help="of `time`")
    parser.add_argument("--kills", type=int, default=20, help="of `kill`: processes that are killed")
    parser.add_argument("--stops", type=int, default=1, help="of `kill`: processes that are stopped, as if unreachable")
    parser.add_argument("--steps", type=int, default=60, help="of `kill`: steps of a training")
    parser.add_argument("--fsdp", action="store_true", help="divide the parameters too")
    options = parser.parse_args()
    if options.what == "time":
        measure_time(options.rounds, options.dropout, options.fsdp)
    else:
        measure_kills(options.kills, options.stops, options.steps, options.fsdp)


if __name__ == "__main__":
    main()
