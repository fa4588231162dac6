# %% [markdown]
"""# Recommend films by Bayesian personalised ranking (Rendle et al., 2009): films that a user rated rank above others.

Every user and film has a vector, every film a bias; each step compares rated films with randomly drawn ones. Four
fifths of the users train the films. The other users are folded in: their vectors are trained on four fifths of their
ratings with the films fixed, and each of their remaining ratings is ranked among the films not rated so far. The MRR is
the mean of 1 / rank over those ratings, the AUC the mean over the users.

With --engine jax, several processes train together, each started with its own number --process; with --checkpoints, a
training that was interrupted goes on:

    python examples/bpr_movielens.py --engine jax --coordinator localhost:8476 --processes 2 --process 0

With --local-steps 16 each takes 16 steps before the parameters are averaged: messages take longer than small steps.

Without --data, preferences are generated. With --data ml-100k.csv --dimensions 32 --epochs 50, the MRR is 0.08 and the
AUC 0.94, after two seconds of training plus compilation.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from command_line import History, Progress, add_devices, arguments, connect, engine_options, parser, positive
from film_pictures import draw_map, draw_neighbours, title_list
from pictures import Pictures

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "ml-100k.csv", "--titles", "u.item"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=20, data="ml-100k.csv or u.data of MovieLens 100K")
options_parser.add_argument("--dimensions", type=positive, default=16, help="length of the vectors")
options_parser.add_argument(
    "--batch-size", type=positive, help="interactions per step; by default 10, and 256 with --engine jax"
)
options_parser.add_argument("--learning-rate", type=float, default=0.1, help="learning rate of Adagrad")
options_parser.add_argument("--regularization", type=float, default=0.01, help="weight of the vectors' squared lengths")
options_parser.add_argument("--threads", type=positive, default=1, help="threads that share the parameters")
options_parser.add_argument("--titles", type=Path, help="u.item of MovieLens 100K, for the pictures")
options_parser.add_argument("--checkpoints", type=Path, help="folder of the checkpoints of --engine jax")
options_parser.add_argument("--watch", type=Path, help="folder to record to, for: python -m wyrm watch FOLDER")
add_devices(options_parser)
options = options_parser.parse_args(arguments(ARGUMENTS))
if options.batch_size is None:
    options.batch_size = 256 if options.engine == "jax" else 10
if options.watch is not None and options.engine != "native":
    options_parser.error("--watch is an option of --engine native")
pictures = Pictures(options.pictures)
process = connect(options)
films_folder, users_folder = (
    None if options.checkpoints is None else options.checkpoints / name for name in ("films", "users")
)
films_run, users_run = (None if options.watch is None else options.watch / name for name in ("films", "users"))
wy.nn.seed(options.seed)

# %% [markdown]
# ## The data
# An interaction is a user and a film that the user rated. The users are split, not the interactions: the model meets
# the new users only after it has learned the films.

# %%
if options.data is None:
    data = wy.data.low_rank_preferences(200, 300, rank=4, interactions_per_user=40, seed=options.seed)
else:
    data = wy.data.read_movielens(options.data)
titles = title_list(options.titles, data.item_ids)
known, new = wy.data.split_by_group(data.dataset(), group="users", test_fraction=0.2, seed=options.seed)
folded_in, held_out = wy.data.train_test_split(new, test_fraction=0.2, seed=options.seed)

# %% [markdown]
# ## The model
# The score of a user for a film is a dot product. The loss of the paper compares the score of a film that the user
# rated with that of a random one, which the graph itself draws: -log sigmoid of their difference, plus a penalty of
# long vectors.


# %%
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


batch, items, factors = Batch(), Items(data.item_count), Factors(options.dimensions)
users = wy.IndexInput(dims=(batch,), name="users")
positives = wy.IndexInput(dims=(batch,), name="positives")
negatives = wy.random.index(items, (batch,), seed=options.seed)
model = Ranking(Users(data.user_count), items, factors)


def penalty(*vectors: wy.Tensor[Batch, Factors]) -> wy.Tensor[()]:
    """Return the squared lengths of vectors, their mean over the batch; long vectors would fit single ratings."""
    total: wy.Tensor[()] = wy.Constant(0.0)
    for rows in vectors:
        total = total + rows.square().sum(axis=-1).mean()
    weight: float = options.regularization
    return weight * total


loss = wy.losses.bpr(model(users, positives), model(users, negatives))
loss = loss + penalty(model.users(users), model.items(positives), model.items(negatives))

# %% [markdown]
# ## Training the films
# The gradient of a table of vectors holds only the rows of the batch, so a step costs the same for any number of films.
# The same function trains the films here and the new users below. On one processor a program needs no more than the
# lines of the engine "native"; the others are for devices of JAX, of several processes, and for what is interrupted.


# %%
def train(loss: wy.Tensor[()], columns: dict[Any, Any], checkpoints: Path | None, watch: Path | None) -> History:
    """Train for all epochs, from the latest checkpoint on if there is one; return the losses."""
    optimizer = wy.optim.Adagrad(loss.parameters(), learning_rate=options.learning_rate)
    if options.engine == "native":
        program = wy.compile(loss, optimizer)
        return wy.train.fit(
            program, columns, epochs=options.epochs, batch_size=options.batch_size, shuffle=True, seed=options.seed,
            threads=options.threads, progress=True, watch=watch or False, config=vars(options) if watch else None,
        )  # fmt: skip

    devices = engine_options("jax", options.mesh, {Batch: "data", Factors: "model"})
    if "mesh" in devices:
        devices["local_steps"] = options.local_steps
    divided: Any = wy.compile(loss, optimizer, **devices)
    if checkpoints is not None and wy.jax.latest_step(checkpoints) is not None:
        wy.jax.restore(divided, checkpoints)
    progress = Progress(options.epochs, divided.state_dict()["epochs"], hidden=process > 0)
    for _ in progress:
        mean_loss = divided.epoch(columns, batch_size=options.batch_size, shuffle=True, seed=options.seed)
        if checkpoints is not None:
            wy.jax.save(divided, checkpoints)
        progress.show(loss=mean_loss)
    wy.jax.gather(divided)  # then each process has all parameters
    return progress.history


history = train(loss, {users: known["users"], positives: known["items"]}, films_folder, films_run)

# %% [markdown]
# ## Folding in new users
# The films are constants here, so only the new users' vectors are trained.

# %%
films, biases = wy.Constant(model.items.weight.value), wy.Constant(model.biases.value)
new_ids = np.unique(new["users"])
row_of = dict(zip(new_ids.tolist(), range(len(new_ids)), strict=True))
folding = wy.nn.Embedding(NewUsers(len(new_ids)), factors, initializer=wy.nn.initializers.Normal(0.1))
new_users = wy.IndexInput(dims=(batch,), name="new_users")
difference = films[positives] - films[negatives]
advantage = folding(new_users).vector_dot(difference) + biases[positives] - biases[negatives]
rows = np.array([row_of[user] for user in folded_in["users"].tolist()])
folding_loss = (-advantage).softplus().mean() + penalty(folding(new_users))
train(folding_loss, {new_users: rows, positives: folded_in["items"]}, users_folder, users_run)
if process > 0:  # the first process prints and draws for all
    sys.exit()

# %% [markdown]
# ## How high the held-out films rank

# %%
scores = folding.weight.value @ films.value.T + biases.value
mask = np.zeros(scores.shape, np.bool_)
mask[rows, folded_in["items"]] = True
held_out_rows = np.array([row_of[user] for user in held_out["users"].tolist()])
relevant = np.zeros(scores.shape, np.bool_)
relevant[held_out_rows, held_out["items"]] = True
auc = wy.metrics.mean_ranking_auc(scores, relevant, exclude=mask)
mrr = wy.metrics.mean_reciprocal_rank(scores[held_out_rows], held_out["items"], exclude=mask[held_out_rows])
print(f"MRR {mrr:.4f}, AUC {auc:.4f} over {len(held_out)} held-out interactions of {len(new_ids)} new users")

# %% [markdown]
# ## Films that lie near each other
# Films that the same users like get similar vectors, although the model knows nothing but who rated what. The map shows
# the two directions in which the vectors differ most, the table the nearest films of some that many users rated.

# %%
if pictures:
    pictures.curves(
        "Bayesian personalised ranking", history, {"loss": "loss: -log sigmoid(score difference), with the penalty"}
    )
    ratings = np.bincount(known["items"], minlength=data.item_count)
    draw_map(pictures, films.value, ratings, titles)
    draw_neighbours(pictures, films.value, ratings, titles, np.argsort(-ratings, kind="stable")[:60:10])
