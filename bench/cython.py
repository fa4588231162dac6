"""What is usually written in Cython: the models of `examples/cython`, a pass over the data, vs gensim and others.

Each contender is the function of that name in the example, which prints how good both are: they train the same model by
the same steps on the same data. GloVe and FTRL stand beside loops that are written by hand for Numba. Contenders with
two threads share one model, without locks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from bench.harness import Case, Contender, Measurement, timed
from bench.models import DATA, THREADS, has_movielens

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "cython"  # also in a folder of `--before`
LEAST = 0.2  # seconds per round, so that threads left spinning by OpenMP do not matter


def _trained(example: str, maker: str, threads: int) -> Callable[[], Measurement]:
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))  # the examples import their neighbour
    trainer = getattr(import_module(example), maker)(threads, 1.0)
    return timed(partial(trainer.train, 1), least=LEAST)


def _case(example: str, what: str, shared: bool, **floors: float) -> Case:
    """Return a case of an example and its peers; with `shared`, wyrm and the first peer with two threads too."""
    makers = ("wyrm", *floors)
    contenders: dict[str, Contender] = {_name(maker): partial(_trained, example, maker, 1) for maker in makers}
    if shared:
        contenders |= {
            f"{_name(maker)}, {THREADS} threads": partial(_trained, example, maker, THREADS) for maker in makers[:2]
        }
    return Case("cython", what, contenders, floors={_name(maker): floor for maker, floor in floors.items()})


def _name(maker: str) -> str:
    """Return the name of a contender: that of its package."""
    return {"by_hand": "numba by hand"}.get(maker, maker.replace("_", "-"))


def cases() -> list[Case]:
    """A pass over MovieLens 100K or a text of 900 KB for each model, in one thread and where the peer can in two."""
    found = []
    if has_movielens("cython"):
        found += [
            _case("biased_factors", "biased factorization, 100 numbers", False, scikit_surprise=2.0),
            _case("als", "exact ALS, 32 numbers", False, implicit=1.3),
            _case("hybrid_bpr", "BPR of four features, 32 numbers", True, lightfm_next=2.5),
            _case("fm", "factorization machine, 16 numbers", True, by_hand=0.95),
            _case("ffm", "field-aware factorization machine, 8 numbers", False, by_hand=0.9),
            _case("ftrl", "FTRL of eight features", False, by_hand=0.95, scikit_learn=1.5),
        ]
    if (DATA / "tinystories.txt").is_file():
        found += [
            _case("word2vec", "skip-grams, 100 numbers", True, gensim=1.2),
            _case("text_classifier", "fastText's classifier, 32 numbers", False, fasttext=1.0),
            _case("glove", "GloVe, 50 numbers", False, by_hand=1.5),
        ]
    else:
        print(f"skipped in cython: no file {DATA / 'tinystories.txt'}; set WYRM_DATA to its folder", file=sys.stderr)
    return found
