"""Which film comes next: users' histories, in order of time, read by a long short-term memory.

The memory reads the films that a user has rated so far; the product of its state with a film's vector, plus the film's
bias, says how well that film would come next. A step compares the film that did come with others drawn at random, by
--loss: hinge and bpr (Rendle et al., 2009) with one other film, warp (Weston et al., 2011) with the first of up to 5
that comes too near, which weighs the more the sooner it was found. Each user's last film is left out of the training
and searched for among all films that the user had not rated before; the MRR is the mean of 1 / rank.

Without --data the histories are generated. With --data ml-100k.csv, 20 epochs take 3 s, and the MRR is 0.075 with warp,
0.072 with hinge and 0.065 with bpr; a ranking by popularity has 0.040.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from command_line import parser, positive, train
from numpy.typing import NDArray

import wyrm as wy

TRIES = 5

History = NDArray[np.int64]


class Batch(wy.Dim): ...


class Steps(wy.Dim): ...


class Films(wy.Dim): ...


class Tokens(wy.Dim): ...


class Factors(wy.Dim): ...


class NextFilm(wy.nn.Module):
    """What a memory makes of the films so far, and how well a film comes next."""

    def __init__(self, films: Films, factors: Factors) -> None:
        self.films = films
        self.seen = wy.nn.Embedding(Tokens(int(films) + 1), factors)  # the last row stands for the beginning
        self.memory = wy.nn.LSTM(factors, factors, forget_bias=1.0)
        self.next = wy.nn.Embedding(films, factors)
        self.biases = wy.Parameter.zeros((films,), name="biases")

    def __call__(self, seen: wy.IndexTensor[Batch, Steps]) -> wy.Tensor[Batch, Steps, Factors]:
        return self.memory(self.seen(seen)).sequence

    def score(
        self, states: wy.Tensor[Batch, Steps, Factors], films: wy.IndexTensor[Batch, Steps]
    ) -> wy.Tensor[Batch, Steps]:
        """How well each film comes next after each state."""
        return self.next(films).vector_dot(states) + self.biases.index(films)


def losses(
    model: NextFilm, name: str, seen: wy.IndexTensor[Batch, Steps], following: wy.IndexTensor[Batch, Steps], seed: int
) -> wy.Tensor[Batch, Steps]:
    """The loss of each step."""
    states = model(seen)
    wanted = model.score(states, following)

    def other() -> wy.Tensor[Batch, Steps]:
        return model.score(states, wy.random.index(model.films, following.dims, seed=seed))

    def violation() -> wy.Tensor[Batch, Steps]:
        return (1.0 - wanted + other()).relu()

    if name == "bpr":
        return wy.losses.bpr(wanted, other(), reduction="none")
    if name == "hinge":
        return violation()
    # From the last attempt to the first: whichever comes first and finds a film too near is the one that counts. The
    # more attempts that took, the higher the film that did come stands already: at about films / attempts.
    loss: wy.Tensor[Batch, Steps] = violation() * math.log(int(model.films) / TRIES)
    for attempts in range(TRIES - 1, 0, -1):
        found = violation()
        loss = wy.where(found > 0.0, found * math.log(int(model.films) / attempts), loss)
    return loss


def walks(seed: int, users: int = 200, films: int = 200, length: int = 30) -> list[History]:
    """Histories in which the next film is mostly one of the few that follow the last one, as in a series."""
    random = np.random.default_rng(seed)
    histories = []
    for _ in range(users):
        history = [int(random.integers(films))]
        while len(history) < length:
            near = (history[-1] + int(random.integers(1, 4))) % films
            film = near if random.random() < 0.8 else int(random.integers(films))
            if film not in history:
                history.append(film)
        histories.append(np.array(history))
    return histories


def read(data: Path) -> list[History]:
    """The films of each user, in order of time."""
    ratings = wy.data.read_movielens(data)
    order = np.lexsort((ratings.timestamps, ratings.users))
    ends = np.cumsum(np.bincount(ratings.users))
    return np.split(ratings.items[order], ends[:-1])


def padded(rows: list[History], length: int) -> History:
    """Rows of different lengths as one array, zeros behind the shorter ones."""
    return np.array([np.pad(row, (0, length - len(row))) for row in rows])


def main() -> None:
    """Train, and print how high each user's last film ranks, beside a ranking by popularity."""
    options_parser = parser(__doc__ or "", epochs=20, data="ml-100k.csv or u.data of MovieLens 100K")
    options_parser.add_argument("--loss", choices=["hinge", "bpr", "warp"], default="warp", help="what a step compares")
    options_parser.add_argument("--dimensions", type=positive, default=32, help="length of the vectors")
    options_parser.add_argument("--length", type=positive, default=50, help="films that the memory reads in a row")
    options_parser.add_argument("--batch-size", type=positive, default=16, help="rows of films a step")
    options_parser.add_argument("--learning-rate", type=float, default=0.1, help="of Adagrad")
    options_parser.add_argument("--threads", type=positive, default=1, help="that share the parameters")
    options = options_parser.parse_args()
    wy.nn.seed(options.seed)

    histories = walks(options.seed) if options.data is None else read(options.data)
    if all(len(history) < 2 for history in histories):
        sys.exit("no user has rated two films, so there is none to learn from")
    known, last = [history[:-1] for history in histories], np.array([history[-1] for history in histories])
    film_count, length = int(max(map(np.max, histories))) + 1, options.length
    batch, steps = Batch(), Steps(length)
    seen = wy.IndexInput(dims=(batch, steps), name="seen")
    following = wy.IndexInput(dims=(batch, steps), name="following")
    mask = wy.Input(dims=(batch, steps), name="mask")
    model = NextFilm(Films(film_count), Factors(options.dimensions))
    loss = (losses(model, options.loss, seen, following, options.seed) * mask).sum() / mask.sum()

    optimizer = wy.optim.Adagrad(loss.parameters(), learning_rate=options.learning_rate)
    # Each history begins with a token of its own, and is cut into rows that overlap by one film.
    read_films = [np.append(film_count, history) for history in known]
    cuts = [films[at : at + length + 1] for films in read_films for at in range(0, len(films) - 1, length)]
    columns = {
        seen: padded([cut[:-1] for cut in cuts], length),
        following: padded([cut[1:] for cut in cuts], length),
        mask: padded([np.ones(len(cut) - 1, np.int64) for cut in cuts], length),
    }
    train(loss, optimizer, columns, options, options.batch_size, options.threads)

    # The state after each user's latest films is the one to ask.
    latest = [films[-length:] for films in read_films]
    seen.set(padded(latest, length))
    users = np.arange(len(known))
    states = model(seen).forward()[users, [len(films) - 1 for films in latest]]
    excluded = np.zeros((len(known), film_count), np.bool_)
    for user, history in enumerate(known):
        excluded[user, history] = True
    popularity = np.bincount(np.concatenate(known), minlength=film_count) * np.ones((len(known), 1))
    scores = states @ model.next.table.value.T + model.biases.value
    mrr, popular = (
        wy.metrics.mean_reciprocal_rank(ranking, last, exclude=excluded) for ranking in (scores, popularity)
    )
    print(f"MRR {mrr:.4f}, by popularity {popular:.4f}, for the last film of {len(known)} users")


if __name__ == "__main__":
    main()
