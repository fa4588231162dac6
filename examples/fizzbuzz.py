"""FizzBuzz with a neural network: from the ten bits of a number to "Fizz", "Buzz", "FizzBuzz" or the number itself.

It trains on 101 to 1023 and is tested on 1 to 100.
"""

from __future__ import annotations

import numpy as np
from command_line import parser, train
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import wyrm as wy


class Batch(wy.Dim): ...


class Bits(wy.Dim): ...


class Hidden(wy.Dim): ...


class Words(wy.Dim): ...


BITS, WORDS = Bits(10), Words(4)
BATCH_SIZE = 32


class FizzBuzz(wy.nn.Module):
    """A network from bits to scores of the four words, with one hidden layer."""

    def __init__(self, hidden: Hidden) -> None:
        self.hidden = wy.nn.Linear(BITS, hidden)
        self.output = wy.nn.Linear(hidden, WORDS)

    def __call__(self, bits: wy.Tensor[Batch, Bits]) -> wy.Tensor[Batch, Words]:
        return self.output(self.hidden(bits).relu())


def encode(numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the bits of each number as -1 and 1, shape (n, 10)."""
    bits = (numbers[:, None] >> np.arange(int(BITS))) & 1
    return (2.0 * bits - 1.0).astype(np.float32)


def classify(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class of each number: 0 for the number itself, 1 for Fizz, 2 for Buzz, 3 for FizzBuzz."""
    return np.where(numbers % 3 == 0, 1, 0) + np.where(numbers % 5 == 0, 2, 0)


def say(number: int, word: int) -> str:
    """Return the word for a number of this class."""
    return (str(number), "Fizz", "Buzz", "FizzBuzz")[word]


def main() -> None:
    """Train, print the words for 1 to 100, and how many are right."""
    options = parser(__doc__ or "", epochs=300, data=None).parse_args()
    wy.nn.seed(options.seed)
    numbers, test = np.arange(101, 1024), np.arange(1, 101)

    batch = Batch()
    bits = wy.Input(dims=(batch, BITS), name="bits")
    words = wy.IndexInput(dims=(batch,), name="words")
    scores = FizzBuzz(Hidden(1024))(bits)
    loss = scores.cross_entropy(words)
    answers = scores.argmax(axis=-1)
    steps = -(-len(numbers) // BATCH_SIZE)
    learning_rate = wy.optim.Cosine(0.003, steps=options.epochs * steps)
    optimizer = wy.optim.AdamW(loss.parameters(), learning_rate, weight_decay=0.2)
    train(loss, optimizer, {bits: encode(numbers), words: classify(numbers)}, options, BATCH_SIZE)

    bits.set(encode(test))
    said = answers.forward()
    print(" ".join(say(int(number), int(word)) for number, word in zip(test, said, strict=True)))
    print(f"{int((said == classify(test)).sum())} of 100 right")


if __name__ == "__main__":
    with threadpool_limits(1, "blas"):  # a second thread slows such small products down
        main()
