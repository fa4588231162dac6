# %% [markdown]
"""# A small Llama that tells stories: rotary positions, grouped heads, gated layers.

The model is `wy.nn.Decoder`, a Llama whose sizes are those of a toy (Touvron et al., 2023): each head of keys and
values serves two heads of queries, and positions are rotations. It reads the first --characters of a text, predicts
each token from those before, and continues a prompt. Tokens are bytes, or those of GPT-2 with --vocab-file and
--merges-file. --save writes the folder that `wy.nn.Decoder.from_pretrained` and transformers read.

Without --data, stories are made of a few sentences, which six epochs teach in seconds. With --data tinystories.txt,
--characters 500000 and --width 96, they take a minute, and what it tells has words; with the files of GPT-2's
tokenizer, ten epochs of the first 200,000 characters take as long.
"""

# %%
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from command_line import arguments, parser, positive, train
from numpy.typing import NDArray
from pictures import Pictures

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "tinystories.txt", "--epochs", "3"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=6, data="a text file, such as tinystories.txt of TinyStories")
options_parser.add_argument("--characters", type=positive, default=200_000, help="of the text that the model reads")
options_parser.add_argument("--vocab-file", type=Path, help="GPT-2's vocab.json, with --merges-file")
options_parser.add_argument("--merges-file", type=Path, help="GPT-2's merges.txt, with --vocab-file")
options_parser.add_argument("--layers", type=positive, default=2, help="blocks of the model")
options_parser.add_argument("--width", type=positive, default=64, help="features of a token, a multiple of 8")
options_parser.add_argument("--length", type=positive, default=64, help="longest sequence")
options_parser.add_argument("--batch-size", type=positive, default=16, help="sequences per step")
options_parser.add_argument("--learning-rate", type=float, default=5e-3, help="learning rate of AdamW at its peak")
options_parser.add_argument("--threads", type=positive, default=1, help="threads that share the parameters")
options_parser.add_argument("--prompt", default="Once upon a time", help="how the story begins")
options_parser.add_argument("--save", type=Path, help="folder to write the trained model to")
options = options_parser.parse_args(arguments(ARGUMENTS))
if (options.vocab_file is None) != (options.merges_file is None):
    options_parser.error("--vocab-file and --merges-file go together")
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The text
# A tokenizer turns the text into numbers, and the model sees them in blocks. For each token, the target is the next.


# %%
def made_stories(seed: int, count: int = 1200) -> str:
    """Return stories of three sentences each, so regular that a toy can learn them."""
    random = np.random.default_rng(seed)
    names, things, places = ["Tom", "Lily", "Sam", "Anna"], ["ball", "kite", "book", "cake"], ["park", "garden", "sea"]
    stories = []
    for _ in range(count):
        name, thing, place = (str(random.choice(each)) for each in (names, things, places))
        stories.append(
            f"Once upon a time, {name} had a {thing}. {name} took the {thing} to the {place}. "
            f"At the {place}, {name} was happy."
        )
    return "\n".join(stories)


class Bytes:
    """The bytes of a text as its tokens."""

    vocab_size = 256

    def encode(self, text: str) -> NDArray[np.int64]:
        """Return the bytes of a text."""
        return np.frombuffer(text.encode(), np.uint8).astype(np.int64)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of bytes."""
        return bytes(tokens).decode(errors="replace")


text = made_stories(options.seed) if options.data is None else wy.data.read_text(options.data)[: options.characters]
tokenizer: Any = Bytes()
if options.vocab_file is not None:
    tokenizer = wy.data.Tokenizer.gpt2(options.vocab_file, options.merges_file)
blocks = wy.data.TokenBlocks(tokenizer.encode(text), options.length, vocab_size=tokenizer.vocab_size, seed=options.seed)
training, validation = blocks.split(0.1)

# %% [markdown]
# ## The model
# The fields of the configuration have the names of transformers. More layers and features are all that a larger model
# needs.

# %%
config = wy.nn.DecoderConfig(
    vocab_size=tokenizer.vocab_size,
    hidden_size=options.width,
    intermediate_size=8 * options.width // 3,
    num_hidden_layers=options.layers,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=options.length,
    tie_word_embeddings=True,
)
model = wy.nn.Decoder(config)
print(f"{sum(each.value.size for each in model.parameters()):,} parameters, {len(training) * options.length:,} tokens")


class Batch(wy.Dim): ...


tokens, targets = (wy.IndexInput(dims=(Batch(), options.length), name=name) for name in ("tokens", "targets"))
loss = model.loss(tokens, targets)

# %% [markdown]
# ## Training
# The learning rate rises in the first twentieth of the steps and then falls to a tenth.

# %%
steps = max(2, options.epochs * -(-len(training) // options.batch_size))
rate = wy.optim.schedules.WarmupCosine(options.learning_rate, max(1, steps // 20), steps, options.learning_rate / 10)
matrices = [each for each in model.parameters() if each.ndim == 2]
norms = [each for each in model.parameters() if each.ndim == 1]
optimizer = wy.optim.AdamW(
    [{"parameters": matrices}, {"parameters": norms, "weight_decay": 0.0}], rate, betas=(0.9, 0.95), weight_decay=0.1
)
held_out = wy.compile(wy.nn.Decoder.loss(model.eval(), tokens, targets))
model.train()


def validation_loss() -> dict[str, float]:
    """Return the mean loss of the held-out blocks."""
    columns = {tokens: validation.inputs, targets: validation.targets}
    return {"validation_loss": held_out.evaluate(columns, batch_size=options.batch_size)}


columns = {tokens: training.inputs, targets: training.targets}
history = train(loss, optimizer, columns, options, options.batch_size, threads=options.threads, measure=validation_loss)
print(f"loss {history['loss'][-1]:.3f}, of held-out text {history['validation_loss'][-1]:.3f}")

# %% [markdown]
# ## Stories
# A decoder keeps the keys and values of earlier tokens. It reads the prompt once for all stories: each takes only what
# differs from the text that the decoder has.

# %%
if options.save is not None:
    model.save_pretrained(options.save)
prompt = tokenizer.encode(options.prompt).tolist()[-options.length :]
decoder = wy.nn.CachedDecoder(model.eval())
for seed in range(3):
    story = wy.nn.generate(decoder, prompt, 80, temperature=0.8, min_p=0.05, repetition_penalty=1.02, seed=seed)
    print(tokenizer.decode([*prompt, *story]).replace("\n", " "))

# %%
if pictures:
    pictures.curves("A small Llama", history, {"loss": "cross-entropy (nats)"})
