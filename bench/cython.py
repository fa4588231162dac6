"""What is usually written in Cython: the models of `examples/cython`, a pass over the data, vs gensim and others.

Each contender is the function of that name in the example, which prints how good both are: they train the same model by
the same steps on the same data. GloVe and FTRL stand beside loops that are written by hand for Numba. Contenders with
two threads share one model, without locks. fastText begins anew in each call, with reading its text, so a whole
training is measured, by its passes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from bench.harness import Case, Contender, Measurement, timed
from bench.models import DATA, THREADS, has_movielens

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "cython"  # also in a folder of `--before`
NO_CHOICES: Mapping[str, str] = MappingProxyType({})
LEAST = 0.2  # seconds per round, so that threads left spinning by OpenMP do not matter


def _trained(
    example: str, maker: str, threads: int, passes: int, choices: Mapping[str, str]
) -> Callable[[], Measurement]:
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))  # the examples import their neighbour
    trainer = getattr(import_module(example), maker)(threads, **choices)
    return timed(partial(trainer.train, passes), passes, least=LEAST)


def _case(
    example: str,
    what: str,
    floors: Mapping[str, float],
    shared: bool = False,
    passes: int = 1,
    choices: Mapping[str, str] = NO_CHOICES,
) -> Case:
    """Return a case of an example and its peers; with `shared`, wyrm and the first peer with two threads too."""
    makers = ("wyrm", *floors)
    contenders: dict[str, Contender] = {
        _name(maker): partial(_trained, example, maker, 1, passes, choices) for maker in makers
    }
    if shared:
        contenders |= {
            f"{_name(maker)}, {THREADS} threads": partial(_trained, example, maker, THREADS, passes, choices)
            for maker in makers[:2]
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
            _case("biased_factors", "biased factorization, 100 numbers", {"scikit_surprise": 5.0}),
            _case("als", "exact ALS, 32 numbers", {"implicit": 1.3}),
            _case("hybrid", "WARP of four features, 32 numbers", {"lightfm_next": 1.5}, True, choices={"loss": "warp"}),
            _case("hybrid", "BPR of four features, 32 numbers", {"lightfm_next": 2.5}, True, choices={"loss": "bpr"}),
            _case("fm", "factorization machine, 16 numbers", {"by_hand": 0.95}, True),
            _case("ffm", "field-aware factorization machine, 8 numbers", {"by_hand": 0.9}),
            _case("ftrl", "FTRL of eight features", {"by_hand": 0.95, "scikit_learn": 1.5}),
        ]
    if (DATA / "tinystories.txt").is_file():
        found += [
            _case("word2vec", "skip-grams, 100 numbers", {"gensim": 1.2}, True),
            _case("text_classifier", "fastText's classifier, 100 numbers", {"fasttext": 1.0}, passes=10),
            _case("glove", "GloVe, 50 numbers", {"by_hand": 1.5}),
        ]
    else:
        print(f"skipped in cython: no file {DATA / 'tinystories.txt'}; set WYRM_DATA to its folder", file=sys.stderr)
    return found
