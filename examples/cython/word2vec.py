"""word2vec: vectors of words that tell which words stand near each other, by skip-grams with negative sampling.

The loss of Mikolov et al. (2013): each pair of near words is told from pairs of the same word with five random ones,
which the graph draws by their counts to the power of 3/4. The learning rate falls in a line, as in gensim.
"""

from __future__ import annotations

from itertools import count, islice

import numpy as np
from beside import Text, Trainer, read_words, show
from numpy.typing import NDArray

import wyrm as wy

LENGTH, WINDOW, NEGATIVES, SAMPLE, RATE, LEAST, EPOCHS, BATCH = 100, 5, 5, 1e-3, 0.025, 1e-4, 20, 32


class Batch(wy.Dim): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; its gradient is not written. The rate falls over `EPOCHS`."""
    text, test = split(part)
    size, batch, seeds = len(text.words), Batch(), count(1000 * seed)
    start = np.random.default_rng(seed).uniform(-1.0, 1.0, (size, LENGTH)).astype(np.float32) / LENGTH
    inputs, outputs = wy.Parameter(start, name="inputs"), wy.Parameter.zeros((size, LENGTH), name="outputs")
    center, context = (wy.IndexInput(dims=(batch,), name=name) for name in ("center", "context"))
    others = wy.random.index(size, (batch, NEGATIVES), weights=text.counts**0.75, seed=seed)
    word = inputs.index(center)
    far = (word[:, None, :] * outputs.index(others)).sum(axis=-1)
    apart = wy.where(others == context[:, None], 0.0, far.softplus())  # a draw of the context itself does not count
    loss = (-word.vector_dot(outputs.index(context))).softplus().sum() + apart.sum()
    optimizer = wy.optim.SGD([inputs, outputs], RATE)
    program = wy.compile(loss, optimizer)

    def epochs(number: int) -> None:
        for seed in islice(seeds, number):
            pairs = wy.data.skip_grams(text.sentences, WINDOW, subsample=SAMPLE, seed=seed)
            columns = dict(zip((center, context), pairs, strict=True))
            if not optimizer.steps:
                optimizer.learning_rate = wy.optim.Polynomial(RATE, EPOCHS * len(pairs[0]) // BATCH, LEAST)
            program.epoch(columns, batch_size=BATCH, threads=threads)

    return Trainer(epochs, lambda: auc(inputs.value, outputs.value, text, test))


def gensim(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer, 961 lines of Cython for this and for CBOW, with and without a hierarchical softmax."""
    from gensim.models import Word2Vec

    text, test = split(part)
    sentences = [[text.words[token] for token in row] for row in text.sentences]
    model = Word2Vec(
        vector_size=LENGTH, window=WINDOW, negative=NEGATIVES, sample=SAMPLE, alpha=RATE, min_alpha=LEAST,
        sg=1, min_count=1, workers=threads, seed=seed,
    )  # fmt: skip
    model.build_vocab([text.words, *sentences])  # the numbers of words that only held-out sentences have, too

    def epochs(number: int) -> None:
        model.train(sentences, total_examples=len(sentences), epochs=number)

    rows = [model.wv.key_to_index[word] for word in text.words]
    return Trainer(epochs, lambda: auc(model.wv.vectors[rows], model.syn1neg[rows], text, test))


def split(part: float) -> tuple[Text, Text]:
    """Return the first nine tenths of the sentences and the others, with the same words."""
    text = read_words(part)
    at = 9 * len(text.sentences) // 10
    first, last = text.sentences[:at], text.sentences[at:]
    counts = np.bincount(first.values, minlength=len(text.words))
    return Text(first, text.words, counts), Text(last, text.words, counts)


def auc(inputs: NDArray[np.float32], outputs: NDArray[np.float32], train: Text, test: Text) -> float:
    """Return how many held-out pairs score above a pair of the same word with one drawn as negatives are."""
    centers, contexts = wy.data.skip_grams(test.sentences, WINDOW, shrink=False)
    shares = train.counts**0.75 / (train.counts**0.75).sum()
    others = np.random.default_rng(0).choice(len(shares), len(centers), p=shares)
    words = inputs[centers]
    return float(np.mean((words * outputs[contexts]).sum(axis=1) > (words * outputs[others]).sum(axis=1)))


if __name__ == "__main__":
    show("AUC of held-out pairs", EPOCHS, wyrm, gensim)
