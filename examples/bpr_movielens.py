"""Recommend films by Bayesian personalised ranking (Rendle et al., 2009): films that a user rated rank above others.

Every user and film has a vector, every film a bias; each step compares rated films with randomly drawn ones. Four
fifths of the users train the films. The other users are folded in: their vectors are trained on four fifths of their
ratings with the films fixed, and each of their remaining ratings is ranked among the films not rated so far. The MRR is
the mean of 1 / rank over those ratings, the AUC the mean over the users.

With --engine jax, several processes train together, each started with its own number --process; with --checkpoints, a
training that was interrupted goes on:

    python examples/bpr_movielens.py --engine jax --coordinator localhost:8476 --processes 2 --process 0

Without --data, preferences are generated. With --data ml-100k.csv --dimensions 32 --epochs 50, the MRR is 0.08 and the
AUC 0.93, after two seconds of training plus compilation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from command_line import add_devices, connect, parser, positive, train

import wyrm as wy


class Batch(wy.Dim): ...


class Users(wy.Dim): ...


class NewUsers(wy.Dim): ...


class Items(wy.Dim): ...


class Factors(wy.Dim): ...


class Ranking(wy.nn.Module):
    """The score of a user for an item: the dot product of their vectors, plus the item's bias."""

    def __init__(self, users: Users, items: Items, factors: Factors) -> None:
        vectors = wy.nn.initializers.Normal(0.1)
        self.users = wy.nn.Embedding(users, factors, initializer=vectors)
        self.items = wy.nn.Embedding(items, factors, initializer=vectors)
        self.biases = wy.Parameter.zeros((items,), name="biases")

    def __call__(self, users: wy.IndexTensor[Batch], items: wy.IndexTensor[Batch]) -> wy.Tensor[Batch]:
        return self.users(users).vector_dot(self.items(items)) + self.biases.index(items)


def main() -> None:
    """Train on some users, fold in the others, and print how high their held-out items rank."""
    options_parser = parser(__doc__ or "", epochs=20, data="ml-100k.csv or u.data of MovieLens 100K")
    options_parser.add_argument("--dimensions", type=positive, default=16, help="length of the vectors")
    options_parser.add_argument("--batch-size", type=positive, default=10, help="interactions per step")
    options_parser.add_argument("--learning-rate", type=float, default=0.1, help="learning rate of Adagrad")
    options_parser.add_argument("--threads", type=positive, default=1, help="threads that share the parameters")
    options_parser.add_argument("--checkpoints", type=Path, help="folder of the checkpoints of --engine jax")
    add_devices(options_parser)
    options_parser.add_argument("--watch", type=Path, help="folder to record to, for: python -m wyrm watch FOLDER")
    options = options_parser.parse_args()
    if options.watch is not None and options.engine != "native":
        options_parser.error("--watch is an option of --engine native")
    process = connect(options)
    axes: dict[type[wy.Dim], str] = {Batch: "data", Factors: "model"}
    films_folder, users_folder = (
        None if options.checkpoints is None else options.checkpoints / name for name in ("films", "users")
    )
    films_run, users_run = (None if options.watch is None else options.watch / name for name in ("films", "users"))
    wy.nn.seed(options.seed)

    if options.data is None:
        data = wy.data.low_rank_preferences(200, 300, rank=4, interactions_per_user=40, seed=options.seed)
    else:
        data = wy.data.read_movielens(options.data)
    known, new = wy.data.split_by_group(data.dataset(), group="users", test_fraction=0.2, seed=options.seed)
    folded_in, held_out = wy.data.train_test_split(new, test_fraction=0.2, seed=options.seed)
    items, factors = Items(data.item_count), Factors(options.dimensions)

    batch = Batch()
    users = wy.IndexInput(dims=(batch,), name="users")
    positives = wy.IndexInput(dims=(batch,), name="positives")
    negatives = wy.random.index(items, (batch,), seed=options.seed)
    model = Ranking(Users(data.user_count), items, factors)
    loss = -(model(users, positives) - model(users, negatives)).sigmoid().mean()
    optimizer = wy.optim.Adagrad(loss.parameters(), learning_rate=options.learning_rate)
    columns = {users: known["users"], positives: known["items"]}
    train(loss, optimizer, columns, options, options.batch_size, options.threads, axes, films_folder, films_run)

    # The films are constants here, so only the new users' vectors are trained.
    films, biases = wy.Constant(model.items.weight.value), wy.Constant(model.biases.value)
    new_ids = np.unique(new["users"])
    row_of = dict(zip(new_ids.tolist(), range(len(new_ids)), strict=True))
    folding = wy.nn.Embedding(NewUsers(len(new_ids)), factors, initializer=wy.nn.initializers.Normal(0.1))
    new_users = wy.IndexInput(dims=(batch,), name="new_users")
    difference = films.take(positives) - films.take(negatives)
    advantage = folding(new_users).vector_dot(difference) + biases.take(positives) - biases.take(negatives)
    rows = np.array([row_of[user] for user in folded_in["users"].tolist()])
    folding_loss = -advantage.sigmoid().mean()
    optimizer = wy.optim.Adagrad(folding_loss.parameters(), learning_rate=options.learning_rate)
    columns = {new_users: rows, positives: folded_in["items"]}
    train(folding_loss, optimizer, columns, options, options.batch_size, options.threads, axes, users_folder, users_run)
    if process > 0:
        return

    scores = folding.weight.value @ films.value.T + biases.value
    mask = np.zeros(scores.shape, np.bool_)
    mask[rows, folded_in["items"]] = True
    held_out_rows = np.array([row_of[user] for user in held_out["users"].tolist()])
    relevant = np.zeros(scores.shape, np.bool_)
    relevant[held_out_rows, held_out["items"]] = True
    auc = wy.metrics.mean_ranking_auc(scores, relevant, exclude=mask)
    mrr = wy.metrics.mean_reciprocal_rank(scores[held_out_rows], held_out["items"], exclude=mask[held_out_rows])
    print(f"MRR {mrr:.4f}, AUC {auc:.4f} over {len(held_out)} held-out interactions of {len(new_ids)} new users")


if __name__ == "__main__":
    main()
