"""Biased matrix factorization: the rating of a film is a mean, two biases and a product of two vectors.

The model of the Netflix prize (Koren, Bell and Volinsky, 2009), with the update of each rating as in scikit-surprise's
`SVD`: a gradient step on half the squared error and the penalty of what the rating touches. Eight ratings step
together, which changes no digit of the error that is printed.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from beside import Trainer, read_films, show
from numpy.typing import ArrayLike, NDArray

import wyrm as wy

FACTORS, RATE, PENALTY, EPOCHS, BATCH = 100, 0.005, 0.02, 20, 8


class Batch(wy.Dim): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; its gradient is not written."""
    train, test = read_films(part)
    batch = Batch()
    user, film = (wy.IndexInput(dims=(batch,), name=name) for name in ("user", "film"))
    rating = wy.Input(dims=(batch,), name="rating")
    wy.nn.seed(seed)
    vectors = wy.nn.initializers.Normal(0.1)
    users = wy.nn.Embedding(train.user_count, FACTORS, initializer=vectors)(user)
    films = wy.nn.Embedding(train.item_count, FACTORS, initializer=vectors)(film)
    user_bias = wy.Parameter.zeros((train.user_count,)).index(user)
    film_bias = wy.Parameter.zeros((train.item_count,)).index(film)
    score = users.vector_dot(films) + user_bias + film_bias + float(train.ratings.mean())
    lengths = users.square().sum(axis=-1) + films.square().sum(axis=-1) + user_bias.square() + film_bias.square()
    loss = 0.5 * ((score - rating).square() + PENALTY * lengths).sum()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), RATE))
    predict = wy.compile(score)
    columns, seeds = {user: train.users, film: train.items, rating: train.ratings}, count(1000 * seed)

    def epochs(number: int) -> None:
        for _ in range(number):
            program.epoch(columns, batch_size=BATCH, shuffle=True, seed=next(seeds), threads=threads)

    return Trainer(epochs, lambda: error(predict({user: test.users, film: test.items}), test.ratings))


def scikit_surprise(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer, whose loop of 94 lines of Cython has one thread; `train` begins anew."""
    import surprise

    train, test = read_films(part)
    columns = zip(*(each.tolist() for each in (train.users, train.items, train.ratings)), strict=True)
    data = surprise.Dataset(surprise.Reader()).construct_trainset([(*row, None) for row in columns])
    model = surprise.SVD(n_factors=FACTORS, lr_all=RATE, reg_all=PENALTY, random_state=seed)

    def epochs(number: int) -> None:
        model.n_epochs = number
        model.fit(data)

    def predicted() -> list[float]:
        pairs = zip(test.users.tolist(), test.items.tolist(), strict=True)
        return [model.predict(*pair, clip=False).est for pair in pairs]

    return Trainer(epochs, lambda: error(predicted(), test.ratings))


def error(predicted: ArrayLike, ratings: NDArray[np.float32]) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(predicted) - ratings) ** 2)))


if __name__ == "__main__":
    show("error of held-out ratings", EPOCHS, wyrm, scikit_surprise)
