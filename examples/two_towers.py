# %% [markdown]
"""# Recommend films by two towers, one for users and one for films, that learn from the other films of a batch.

Each tower maps an id to a vector; the score of a film for a user is the dot product of both. A step compares each film
that a user rated with the films of the other rows, which cost nothing more. Popular films are such negatives more often
than others, for which the scores are corrected (Yi et al., "Sampling-bias-corrected neural modeling", 2019). The last
film of each user is held out for the test, and the one before for early stopping. What a request needs is saved; a
second process answers requests from it:

    python examples/two_towers.py --data ml-100k.csv --save towers.safetensors
    python examples/two_towers.py --save towers.safetensors --ask 196

Without --data, preferences are generated. With --data ml-100k.csv, the last film is among the ten recommended ones for
12 % of the users and among fifty for 34 % (means of three seeds), out of 1,682 films but those rated before. By
popularity it is for 9 % and 20 %.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from command_line import arguments, parser, positive
from film_pictures import draw_map, draw_neighbours, title_list
from pictures import Pictures
from threadpoolctl import threadpool_limits

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "ml-100k.csv", "--titles", "u.item"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=20, data="ml-100k.csv or u.data of MovieLens 100K")
options_parser.add_argument("--dimensions", type=positive, default=32, help="length of the vectors")
options_parser.add_argument("--batch-size", type=positive, default=512, help="interactions per step")
options_parser.add_argument("--learning-rate", type=float, default=0.01, help="learning rate of Adam")
options_parser.add_argument("--patience", type=positive, default=3, help="epochs without a better recall, then stop")
options_parser.add_argument("--save", type=Path, help="file for the vectors, ids and ratings that a request needs")
options_parser.add_argument("--ask", type=int, help="recommend films to the user of this id, from the file of --save")
options_parser.add_argument("--titles", type=Path, help="u.item of MovieLens 100K, for answers and pictures")
options = options_parser.parse_args(arguments(ARGUMENTS))
if options.ask is not None and options.save is None:
    options_parser.error("--ask needs --save, the file that a training has written")
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)
threadpool_limits(1, "blas")  # a second thread slows such small products down

# %% [markdown]
# ## A request
# The file has the vectors of users and films, their ids, and who has rated what. A request takes some microseconds: all
# films are compared, and those that the user has rated are left out.


# %%
def answer(file: Path, user: int, count: int = 5) -> list[str]:
    """Return the titles of the films recommended to a user, best first."""
    saved = wy.io.load_arrays(file).arrays
    known = wy.data.Ids.of_distinct(saved["user_ids"])
    if user not in known:
        sys.exit(f"there is no user {user} in {file}; users are such as {saved['user_ids'][0]}")
    rated = wy.data.ItemRows(saved["indptr"], saved["indices"], len(saved["film_ids"]))
    found = wy.recommend(saved["users"], saved["films"], count, rows=known.index(user), exclude=rated)
    films = saved["film_ids"][found.items]
    return [
        f"{score:7.3f}  {title}" for score, title in zip(found.scores, title_list(options.titles, films), strict=True)
    ]


if options.ask is not None:
    print("\n".join(answer(options.save, options.ask)))
    sys.exit()

# %% [markdown]
# ## The data
# The films of each user are ordered by time.

# %%
if options.data is None:
    data = wy.data.low_rank_preferences(300, 200, rank=4, interactions_per_user=20, seed=options.seed)
else:
    data = wy.data.read_movielens(options.data)
before, last = wy.data.leave_one_out(data)
training, validation = wy.data.leave_one_out(before)

# %% [markdown]
# ## The towers


# %%
class Batch(wy.Dim): ...


class Users(wy.Dim): ...


class Films(wy.Dim): ...


class Factors(wy.Dim): ...


class Hidden(wy.Dim): ...


class Tower(wy.nn.Module):
    """A vector for each id, and two layers on top."""

    def __init__(self, ids: wy.Dim, factors: Factors) -> None:
        hidden = Hidden(int(factors))
        self.vectors = wy.nn.Embedding(ids, factors)
        self.layers = wy.nn.Linear(factors, hidden) >> wy.nn.relu >> wy.nn.Linear(hidden, factors)

    def __call__(self, ids: wy.IndexTensor[Any]) -> wy.Tensor[Any, Factors]:
        return self.layers(self.vectors(ids))


batch, factors = Batch(), Factors(options.dimensions)
users = wy.IndexInput(dims=(batch,), name="users")
films = wy.IndexInput(dims=(batch,), name="items")
user_tower, film_tower = Tower(Users(data.user_count), factors), Tower(Films(data.item_count), factors)
user_vectors, film_vectors = user_tower(users), film_tower(films)
frequency = np.maximum(training.item_counts, 1) / len(training)
loss = wy.losses.info_nce(user_vectors, film_vectors, items=films, log_frequency=np.log(frequency).astype(np.float32))

# %% [markdown]
# ## Training
# After each epoch, all films are ranked for each user but those of the training. The training stops when the share of
# users whose film is among the first fifty has not grown for some epochs, and takes the parameters of the best one.


# %%
def found_in_fifty(films: Any, scores: Any) -> float:
    """Return the share of users whose film is among the first fifty."""
    return wy.metrics.recall_at_k(scores, films, 50, exclude=training.seen().take(validation.users))


every_film = film_tower(wy.IndexConstant(np.arange(data.item_count), dims=(Films(data.item_count),)))
scores = user_vectors @ every_film.T
history = wy.train.fit(
    wy.compile(loss, wy.optim.Adam(loss.parameters(), options.learning_rate), engine=options.engine),
    training.dataset(),
    epochs=options.epochs,
    batch_size=options.batch_size,
    shuffle=True,
    seed=options.seed,
    validation=validation.dataset(),
    evaluation=wy.compile(scores.cross_entropy(films), engine=options.engine),
    metrics={"recall": (wy.metrics.Collected(found_in_fifty), films, scores)},
    callbacks=[wy.train.EarlyStopping(options.patience, "validation_recall", higher_is_better=True)],
    progress=True,
)

# %% [markdown]
# ## How often the last film is found

# %%
of_users = wy.compile(user_vectors, engine=options.engine)({users: np.arange(data.user_count)})
of_films = wy.compile(every_film, engine=options.engine)()
rated, wanted = before.seen(), last.seen()
popularity = np.broadcast_to(training.item_counts, (data.user_count, data.item_count))
rankings = {
    "two towers": wy.recommend(of_users, of_films, 50, exclude=rated),
    "popularity": wy.recommend(popularity, k=50, exclude=rated),
}
print(f"the last film of {len(last)} users, after {history.epochs} epochs")
for name, ranking in rankings.items():
    ten, fifty = (wy.metrics.recall_at_k(ranking, wanted, k) for k in (10, 50))
    gain = wy.metrics.ndcg(ranking, wanted, 10)
    novelty = wy.metrics.novelty(ranking, training.item_counts, 10, user_count=data.user_count)
    covered = wy.metrics.coverage(ranking, 10, item_count=data.item_count)
    print(
        f"recall {ten:.4f} at 10, {fifty:.4f} at 50, NDCG {gain:.4f}, novelty {novelty:.1f} bits, "
        f"coverage {covered:.1%} by {name}"
    )

# %% [markdown]
# ## Saving
# The towers are not needed for requests: their vectors are.

# %%
if options.save is not None:
    seen = data.seen()
    arrays = {"users": of_users, "films": of_films, "indptr": seen.indptr, "indices": seen.indices}
    wy.io.save_arrays(options.save, {**arrays, "user_ids": data.user_ids, "film_ids": data.item_ids})
    print(f"saved; ask with --save {options.save} --ask {data.user_ids[0]}")

# %%
if pictures:
    units = {"loss": "cross-entropy among the films of a batch", "recall": "last films among the first fifty (%)"}
    pictures.curves("Two towers", history, units)
    counts = training.item_counts
    titles = title_list(options.titles, data.item_ids)
    draw_map(pictures, of_films, counts, titles)
    draw_neighbours(pictures, of_films, counts, titles, np.argsort(-counts, kind="stable")[:60:10])
