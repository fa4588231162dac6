# %% [markdown]
"""# Spaced repetition: fit FSRS, the schedule behind Anki, to the reviews of one learner.

A program for flash cards asks for a card again when it is about to be forgotten. FSRS-6 (Ye and others, 2022 to 2025)
tells when: each card has a stability, the days until nine of ten learners still recall it, and a difficulty from 1 to
10. Formulas with 21 numbers say how an answer changes both, and the numbers are fitted to what a learner has answered.

fsrs-rs, the library that Anki uses, has the gradients of these formulas written out by hand, in Rust. Here the formulas
are a graph, and their gradient, the training, C and a page for a browser follow from it. With `fsrs-rs-python`
installed, the same reviews are fitted by both.
"""

# %%
from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from command_line import Progress, arguments, parser, positive
from numpy.typing import NDArray
from pictures import BLUE, GREY, ORANGE, Pictures

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--epochs", "20"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=5, data=None)
options_parser.add_argument("--cards", type=positive, default=5000, help="cards to fit")
options_parser.add_argument(
    "--page", metavar="FOLDER", help="write a page that fits in a browser, and say how to open it"
)
options = options_parser.parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)

# %% [markdown]
# ## The model
# Each of the 21 numbers has a start and bounds. The prior keeps a number near its start unless the reviews say
# otherwise: `spread` is how far it lies from there among learners.


# %%
class Number(NamedTuple):
    start: float
    lower: float
    upper: float
    spread: float


NUMBERS = {
    "first_again": Number(0.212, 0.001, 100.0, 6.43),
    "first_hard": Number(1.2931, 0.001, 100.0, 9.66),
    "first_good": Number(2.3065, 0.001, 100.0, 17.58),
    "first_easy": Number(8.2956, 0.001, 100.0, 27.85),
    "difficulty": Number(6.4133, 1.0, 10.0, 0.57),
    "difficulty_of_rating": Number(0.8334, 0.001, 4.0, 0.28),
    "difficulty_step": Number(3.0194, 0.001, 4.0, 0.6),
    "difficulty_return": Number(0.001, 0.001, 0.75, 0.12),
    "recall": Number(1.8722, 0.0, 4.5, 0.39),
    "recall_of_stability": Number(0.1666, 0.0, 0.8, 0.18),
    "recall_of_forgetting": Number(0.796, 0.001, 3.5, 0.33),
    "lapse": Number(1.4835, 0.001, 5.0, 0.3),
    "lapse_of_difficulty": Number(0.0614, 0.001, 0.25, 0.09),
    "lapse_of_stability": Number(0.2629, 0.001, 0.9, 0.16),
    "lapse_of_forgetting": Number(1.6483, 0.0, 4.0, 0.57),
    "hard": Number(0.6014, 0.0, 1.0, 0.25),
    "easy": Number(1.8729, 1.0, 6.0, 1.03),
    "same_day": Number(0.5425, 0.0, 2.0, 0.31),
    "same_day_of_rating": Number(0.0912, 0.0, 2.0, 0.32),
    "same_day_of_stability": Number(0.0658, 0.0, 0.8, 0.14),
    "decay": Number(0.1542, 0.1, 0.8, 0.27),
}
AGAIN, HARD, GOOD, EASY = 1.0, 2.0, 3.0, 4.0
w = {name: wy.Parameter(number.start, name=name) for name, number in NUMBERS.items()}


def by_rating(rating: Any, again: Any, hard: Any, good: Any, easy: Any) -> Any:
    """Return the value of each answer's rating."""
    return wy.where(rating == AGAIN, again, wy.where(rating == HARD, hard, wy.where(rating == EASY, easy, good)))


def recall_after(days: Any, stability: Any) -> Any:
    """Return the chance that a card is recalled after days: 0.9 when they are its stability."""
    return (1.0 + ((np.log(1.0 / 0.9) / w["decay"]).exp() - 1.0) * days / stability) ** -w["decay"]


def first_difficulty(rating: Any) -> Any:
    return w["difficulty"] - (w["difficulty_of_rating"] * (rating - 1.0)).exp() + 1.0


def answer(memory: tuple[Any, Any], review: tuple[Any, Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return stability and difficulty after an answer, and the chance of recall before it with the new stability.

    `memory` is (0, 0) before the first answer; `review` has the rating, and the days since the review before it.
    """
    (before, difficulty), (rating, days) = memory, review
    new = before == 0.0
    stability = wy.where(new, 1.0, before)
    recall = recall_after(days, stability)
    forgetting = 1.0 - recall
    grown = stability ** -w["recall_of_stability"] * ((w["recall_of_forgetting"] * forgetting).exp() - 1.0)
    grown = w["recall"].exp() * (11.0 - difficulty) * grown * by_rating(rating, 1.0, w["hard"], 1.0, w["easy"])
    lapsed = w["lapse"] * difficulty.maximum(1.0) ** -w["lapse_of_difficulty"]
    lapsed *= ((stability + 1.0) ** w["lapse_of_stability"] - 1.0) * (w["lapse_of_forgetting"] * forgetting).exp()
    lapsed = lapsed.minimum(stability / (w["same_day"] * w["same_day_of_rating"]).exp())
    # A second answer on one day.
    again = (w["same_day"] * (rating - GOOD + w["same_day_of_rating"])).exp()
    again *= stability ** -w["same_day_of_stability"]
    again = stability * wy.where(rating > AGAIN, again.maximum(1.0), again)
    later = wy.where(days == 0.0, again, wy.where(rating == AGAIN, lapsed, stability * (1.0 + grown)))
    first = by_rating(rating, *(w[f"first_{name}"] for name in ("again", "hard", "good", "easy")))
    moved = difficulty - w["difficulty_step"] * (rating - GOOD) * (10.0 - difficulty) / 9.0
    returned = w["difficulty_return"] * first_difficulty(EASY) + (1.0 - w["difficulty_return"]) * moved
    difficulty = wy.where(new, first_difficulty(rating), returned).clip(1.0, 10.0)
    stability = wy.where(new, first, later).clip(0.001, 36500.0)
    return (stability, difficulty), (recall, stability)


# %% [markdown]
# ## When the formulas changed
# FSRS-5 had 19 numbers. In 2025, FSRS-6 let memories fade at a pace of each learner's own, and a second answer on one
# day count less for a card that is known well. These lines are all that changes here, gradient, training, C and page
# included:
#
# ```diff
# +    "same_day_of_stability": Number(0.0658, 0.0, 0.8, 0.14),
# +    "decay": Number(0.1542, 0.1, 0.8, 0.27),
# -    return (1.0 + 19.0 / 81.0 * days / stability) ** -0.5
# +    return (1.0 + ((np.log(1.0 / 0.9) / w["decay"]).exp() - 1.0) * days / stability) ** -w["decay"]
# +    again *= stability ** -w["same_day_of_stability"]
# ```
#
# Where gradients are written by hand, each formula that comes after these has new derivatives too.

# %% [markdown]
# ## Reviews of a learner who never was
# The learner forgets more quickly than the start says. Half of the cards are for the fit, and half are held out. The
# same `answer`, compiled for one answer of each card, makes the reviews, so that no formula stands here twice.


# %%
class Cards(wy.Dim): ...


class Reviews(wy.Dim): ...


REVIEWS = 16
LEARNER = {
    "first_again": 0.4, "first_hard": 0.8, "first_good": 1.2, "first_easy": 4.0, "difficulty_step": 2.0,
    "recall": 1.0, "lapse": 0.8, "decay": 0.4,
}  # fmt: skip
Array = NDArray[np.float32]


def reviews_of(cards: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Return ratings and days since the review before, (cards, REVIEWS); after a card's last review, both are 0."""
    one = [wy.Input(dims=(Cards(),), name=name) for name in ("stability", "difficulty", "rating", "days")]
    chance, after = wy.compile(recall_after(one[3], one[0])), wy.compile(answer((one[0], one[1]), (one[2], one[3]))[0])
    ratings, days = np.zeros((2, REVIEWS, cards), np.float32)
    stability, difficulty = np.zeros((2, cards), np.float32)
    ratings[0] = random.choice(4, cards, p=[0.25, 0.1, 0.55, 0.1]) + 1
    for i in range(REVIEWS):
        if i:
            same_day = random.random(cards) < np.where(ratings[i - 1] == AGAIN, 0.9, 0.2 if i == 1 else 0.0)
            days[i] = np.where(same_day, 0.0, np.ceil(stability * random.uniform(0.3, 2.5, cards)))
            recalled = random.random(cards) < chance({one[0]: stability, one[3]: days[i]})
            ratings[i] = np.where(recalled, random.choice(3, cards, p=[0.1, 0.8, 0.1]) + 2, AGAIN)
        stability, difficulty = after(dict(zip(one, (stability, difficulty, ratings[i], days[i]), strict=True)))
    seen = np.arange(REVIEWS) < random.integers(2, REVIEWS + 1, cards)[:, None]
    return np.where(seen, ratings.T, 0.0), np.where(seen, days.T, 0.0)


def set_numbers(numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        w[name].set(value)


start = {name: number.start for name, number in NUMBERS.items()}
set_numbers(start | LEARNER)
random = np.random.default_rng(options.seed)
ratings, days = reviews_of(2 * options.cards, random)
set_numbers(start)
kept, held_out = slice(options.cards), slice(options.cards, None)

# %% [markdown]
# ## The fit
# `scan` follows all cards at once, review by review, and gives the chance of recall before each. Answers of the day of
# the review before are not counted. Adam keeps each number within its bounds.

# %%
cards = Cards()
rating, days_since = (wy.Input(dims=(cards, Reviews(REVIEWS)), name=name) for name in ("rating", "days"))
nothing = (rating[:, 0] * 0.0, rating[:, 0] * 0.0)
_, (recall, stability) = wy.scan(answer, nothing, (rating.T, days_since.T))
chance = recall.T.clip(0.0001, 0.9999)
losses = -wy.where(days_since > 0.0, wy.where(rating > AGAIN, chance.log(), (1.0 - chance).log()), 0.0)
prior = sum((((w[name] - number.start) / number.spread).square() for name, number in NUMBERS.items()), wy.Constant(0.0))
loss = losses.sum(axis=1).mean() + prior / options.cards
groups: list[wy.optim.ParameterGroup] = [
    {"parameters": [w[name]], "lower": number.lower, "upper": number.upper} for name, number in NUMBERS.items()
]
BATCH = 100
steps = options.epochs * -(-options.cards // BATCH)
optimizer = wy.optim.Adam(groups, wy.optim.schedules.Cosine(0.04, steps=steps))
began = process_time()
train = wy.compile(loss, optimizer, engine=options.engine)
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = train.epoch(
        {rating: ratings[kept], days_since: days[kept]}, batch_size=BATCH, shuffle=True, seed=options.seed
    )
    progress.show(loss=mean_loss)
seconds = process_time() - began

# %% [markdown]
# ## How well the numbers tell
# The loss of held-out answers, in nats for each: of the start, of the fit, of fsrs-rs, which weighs the last answers
# more, and of the learner's own numbers, which nobody knows outside of an example. fsrs-rs takes less time, since its
# gradients were compiled beforehand: most of the seconds here are compiling.

# %%
evaluate = wy.compile(losses)


def loss_of(numbers: dict[str, float]) -> float:
    """Return the mean loss of the held-out answers by these numbers, which the model keeps."""
    set_numbers(numbers)
    return float(evaluate({rating: ratings[held_out], days_since: days[held_out]}).sum() / (days[held_out] > 0.0).sum())


def fsrs_rs() -> tuple[dict[str, float], float]:
    """Return the numbers that fsrs-rs fits to the same answers, and its seconds."""
    from fsrs_rs_python import FSRS, FSRSItem, FSRSReview

    items, of_card = [], []
    for card in range(options.cards):
        answers = [FSRSReview(int(r), int(d)) for r, d in zip(ratings[card], days[card], strict=True) if r]
        ends = [i + 1 for i in range(len(answers)) if days[card, i] > 0.0]
        items += [FSRSItem(answers[:end]) for end in ends]
        of_card += [card] * len(ends)
    began = process_time()
    numbers = FSRS([]).compute_parameters(items, card_ids=of_card)
    return dict(zip(NUMBERS, numbers, strict=True)), process_time() - began


fitted = {name: float(each.value) for name, each in w.items()}
found = {"start": start, "fit": fitted, "learner": start | LEARNER}
if find_spec("fsrs_rs_python"):
    found["fsrs-rs"], its_seconds = fsrs_rs()
    print(f"seconds: {seconds:.3f} with compiling, and {its_seconds:.3f} of fsrs-rs, of the processor")
print(f"{int((days[kept] > 0.0).sum())} answers of {options.cards} cards, in {options.epochs} epochs")
print(f"{'':22}" + "".join(f"{who:>10}" for who in found))
for name in NUMBERS:
    print(f"{name:22}" + "".join(f"{numbers[name]:10.3f}" for numbers in found.values()))
print(f"{'loss of held-out':22}" + "".join(f"{loss_of(numbers):10.4f}" for numbers in found.values()))
set_numbers(fitted)

# %% [markdown]
# ## Out of Python
# C and WebAssembly get the same fit, and the schedule: the chance of recall before each review, and the stability after
# it, which is the days until the card should come again. With `--page FOLDER`, a page fits the numbers in a browser.

# %%
fit = wy.compile(loss, wy.optim.Adam(groups, 0.01))
schedule = wy.compile(stability.T)
predict = {"recall": wy.compile(recall.T), "schedule": schedule}
with tempfile.TemporaryDirectory() as folder:
    exported = wy.export(folder, train=fit, predict=predict, name="fsrs", batch_sizes=BATCH)
    size = sum((Path(folder) / name).stat().st_size for name in ("fsrs.o", "fsrs.safetensors"))
print(f"C: {size / 1000:.0f} kB, and {exported.memory_bytes / 1000:.0f} kB of memory")
answers = ratings[0, ratings[0] > 0.0]
next_days = schedule({rating: ratings[:1], days_since: days[:1]})
print(f"a card answered {answers.astype(int).tolist()} comes again after {next_days[0, len(answers) - 1]:.1f} days")
if options.page:
    columns = {rating: ratings[kept], days_since: days[kept]}
    wy.export(options.page, train=fit, target="wasm32", name="fsrs", batch_sizes=BATCH, columns=columns)
    print(f"python -m http.server --directory {options.page}  # and open http://localhost:8000")

# %%
if pictures:
    pictures.curves("The fit", progress.history, {"loss": "loss of a card's answers, and prior (nats)"})
    with pictures.draw("forgetting") as figure:
        axes = figure.subplots()
        passed, stable = (wy.Input(dims=(Cards(),), name=name) for name in ("passed", "stable"))
        curve, days_passed = wy.compile(recall_after(passed, stable)), np.linspace(0.0, 60.0, 200, dtype=np.float32)
        for who, color in {"learner": GREY, "start": ORANGE, "fit": BLUE}.items():
            set_numbers(found[who])
            stabilities = np.full_like(days_passed, found[who]["first_good"])
            recalled = curve({passed: days_passed, stable: stabilities})
            axes.plot(days_passed, recalled, color=color, label=who, linewidth=5 if who == "learner" else 2)
        axes.set(xlabel="days after a first answer of good", ylabel="chance of recall", ylim=(0.0, 1.0))
        axes.set_title("How memories fade")
        axes.legend()
