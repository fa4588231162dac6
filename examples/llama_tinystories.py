# %% [markdown]
"""# A small Llama that tells stories: trained from nothing, kept, fine-tuned in int8, and ready to chat.

The model is `wy.nn.Decoder`, a Llama (Touvron et al., 2023). `--preset toy` is as small as its name says; `stories15M`
has the shape of the model of 15 million parameters that llama2.c made known. It reads stories, and continues a prompt.
`--save FOLDER` writes the folder that `wy.nn.Decoder.from_pretrained` and transformers read, with the tokenizer:
`python -m wyrm chat FOLDER` continues what you begin. With `--about WORD`, matrices of low rank beside int8 weights
learn from the stories that have this word; they go to FOLDER/adapter, and FOLDER/tuned is a model to chat with.
`--base FOLDER` fine-tunes such a model without training it again.

    python examples/llama_tinystories.py --data tinystories.txt --preset stories15M --vocab-size 4096 \
        --epochs 4 --bfloat16 --save stories
    python examples/llama_tinystories.py --data tinystories.txt --base stories --about Max --save stories
    python -m wyrm chat stories/tuned

Without --data, stories are made of a few sentences, which six epochs teach in seconds.
"""

# %%
from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from command_line import Progress, arguments, parser, positive
from pictures import Pictures

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "tinystories.txt", "--epochs", "3"].
ARGUMENTS: list[str] = []


# %%
class Preset(NamedTuple):
    """What a size of the model is when no option says otherwise."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    length: int
    vocab_size: int
    batch_size: int
    learning_rate: float


PRESETS = {
    "toy": Preset(2, 64, 4, 2, 40, 320, batch_size=8, learning_rate=5e-3),
    "stories15M": Preset(6, 288, 6, 6, 256, 32_000, batch_size=4, learning_rate=1e-3),
}
options_parser = parser(__doc__ or "", epochs=6, data="a text file, such as tinystories.txt of TinyStories")
options_parser.add_argument("--preset", choices=PRESETS, default="toy", help="the sizes that are not given")
for name, value in PRESETS["toy"]._asdict().items():
    kind = float if isinstance(value, float) else positive
    options_parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help="instead of the preset's")
options_parser.add_argument("--characters", type=positive, help="of the text that the model reads, by default all")
options_parser.add_argument("--vocab-file", type=Path, help="GPT-2's vocab.json, with --merges-file")
options_parser.add_argument("--merges-file", type=Path, help="GPT-2's merges.txt, with --vocab-file")
options_parser.add_argument("--bfloat16", action="store_true", help="products of bfloat16 numbers in training")
options_parser.add_argument("--threads", type=positive, default=1, help="threads that share the parameters")
options_parser.add_argument("--prompt", default="Once upon a time", help="how stories begin")
options_parser.add_argument("--save", type=Path, help="folder to write the model to, with its tokenizer")
options_parser.add_argument("--base", type=Path, help="folder of --save: this model, and no training of another")
options_parser.add_argument("--about", help="a word: fine-tune on the stories that have it")
options_parser.add_argument("--tune-epochs", type=positive, default=6, help="passes over those stories")
options_parser.add_argument("--rank", type=positive, default=8, help="of the matrices that fine-tuning trains")
options = options_parser.parse_args(arguments(ARGUMENTS))
if (options.vocab_file is None) != (options.merges_file is None):
    options_parser.error("--vocab-file and --merges-file go together")
given = {name: getattr(options, name) for name in Preset._fields}
sizes = PRESETS[options.preset]._replace(**{name: value for name, value in given.items() if value is not None})
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The stories
# A story ends where a line ends, unless the next line is empty. Between two of them stands a token of its own, which
# the model learns to write where a story is over.

# %%
END = "<|endoftext|>"


def made_stories(seed: int, count: int = 3000) -> list[str]:
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
    return stories


def read_stories(path: Path) -> list[str]:
    """Return the stories of a file."""
    text = wy.data.read_text(path)[: options.characters]
    parts = re.split(rf"{re.escape(END)}|(?<!\n)\n(?!\n)", text)
    return [part.strip() for part in parts if part.strip()]


stories = made_stories(options.seed) if options.data is None else read_stories(options.data)
text = END + END.join(stories)
if options.base is not None:
    tokenizer = wy.data.Tokenizer.load(options.base / "tokenizer.json")
elif options.vocab_file is not None:
    tokenizer = wy.data.Tokenizer.gpt2(options.vocab_file, options.merges_file)
else:
    tokenizer = wy.data.Tokenizer.train(text, sizes.vocab_size)

# %% [markdown]
# ## The model
# The fields of the configuration have the names of transformers.

# %%
config = wy.nn.DecoderConfig(
    vocab_size=tokenizer.vocab_size,
    hidden_size=sizes.width,
    intermediate_size=8 * sizes.width // 3,
    num_hidden_layers=sizes.layers,
    num_attention_heads=sizes.heads,
    num_key_value_heads=sizes.kv_heads,
    max_position_embeddings=sizes.length,
    tie_word_embeddings=True,
)
model = wy.nn.Decoder(config) if options.base is None else wy.nn.Decoder.from_pretrained(options.base)
length = model.config.max_position_embeddings


class Batch(wy.Dim): ...


batch = Batch()
tokens, targets = (wy.IndexInput(dims=(batch, length), name=name) for name in ("tokens", "targets"))


def fit(text: str, parameters: list[wy.Parameter], epochs: int, rate: float) -> dict[str, list[float]]:
    """Train parameters on nine tenths of a text; return the losses, and those of the last tenth.

    The learning rate rises in the first twentieth of the steps and then falls to a tenth.
    """
    blocks = wy.data.TokenBlocks(tokenizer.encode(text), length, vocab_size=tokenizer.vocab_size, seed=options.seed)
    training, validation = blocks.split(0.1)
    total = sum(each.value.size for each in parameters)
    print(f"{total:,} parameters to train, {len(training) * length:,} tokens")
    steps = max(2, epochs * -(-len(training) // sizes.batch_size))
    falling = wy.optim.schedules.WarmupCosine(rate, max(1, steps // 20), steps, rate / 10)
    matrices, norms = ([each for each in parameters if each.ndim == ndim] for ndim in (2, 1))
    groups: list[Any] = [{"parameters": matrices}, {"parameters": norms, "weight_decay": 0.0}]
    optimizer = wy.optim.AdamW([each for each in groups if each["parameters"]], falling, betas=(0.9, 0.95),
                               weight_decay=0.1)  # fmt: skip
    evaluation = wy.compile(wy.nn.Decoder.loss(model.eval(), tokens, targets))
    loss = wy.nn.Decoder.loss(model.train(), tokens, targets)
    compute_dtype: Literal["bfloat16"] | None = "bfloat16" if options.bfloat16 else None
    train = wy.compile(loss, optimizer, engine=options.engine, compute_dtype=compute_dtype)

    columns, held_out = ({tokens: each.inputs, targets: each.targets} for each in (training, validation))
    before = evaluation.evaluate(held_out, batch_size=sizes.batch_size)
    progress = Progress(epochs)
    for _ in progress:
        mean_loss = train.epoch(
            columns, batch_size=sizes.batch_size, shuffle=True, seed=options.seed, threads=options.threads
        )
        progress.show(loss=mean_loss, validation_loss=evaluation.evaluate(held_out, batch_size=sizes.batch_size))
    after = progress.history["validation_loss"][-1]
    print(f"loss {progress.history['loss'][-1]:.3f}, of held-out text {after:.3f}, before {before:.3f}")
    return progress.history


history = fit(text, model.parameters(), options.epochs, sizes.learning_rate) if options.base is None else None

# %% [markdown]
# ## Keeping it
# The folder has the weights, the configuration and the tokenizer. Its template of chats makes each message the
# beginning of a story.

# %%
TEMPLATE = "{{ eos_token }}{{ messages[-1].content }}"


def save(model: wy.nn.Decoder, folder: Path) -> None:
    """Write a model and its tokenizer as transformers lays them out."""
    model.save_pretrained(folder)
    tokenizer.save(folder / "tokenizer.json")
    contents = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")


if options.save is not None and options.base is None:
    save(model, options.save)

# %% [markdown]
# ## Telling stories
# A decoder keeps the keys and values of earlier tokens. It reads the prompt once for all stories: each takes only what
# differs from the text that the decoder has.

# %%
prompt = tokenizer.encode(END + options.prompt)[-length:]


def tell(count: int) -> list[str]:
    """Return stories that begin with the prompt, each with a seed of its own."""
    decoder, end, found = wy.nn.CachedDecoder(model.eval()), tokenizer.token_to_id(END), []
    for seed in range(count):
        pieces = wy.nn.generate_text(
            decoder, tokenizer, prompt, 80, temperature=0.8, min_p=0.05, repetition_penalty=1.02, stop=end, seed=seed
        )
        found.append((options.prompt + "".join(pieces)).replace("\n", " "))
    return found


told = tell(20)
print(*told[:3], sep="\n")

# %% [markdown]
# ## Fine-tuning
# The matrices become integers of 8 bits. Beside those of the blocks stand pairs of matrices of low rank. Only these are
# trained. The adapter is a small file. A model of float32 to chat with has it added to the weights of before.


# %%
def weight_bytes() -> int:
    """Return the bytes of all numbers of the model."""
    return sum(array.nbytes for array in model.state_dict().values())


def fine_tune(word: str) -> None:
    """Train an adapter on the stories that have a word, and tell stories beside those of before."""
    has_word = re.compile(rf"\b{re.escape(word)}\b").search
    mine = list(filter(has_word, stories))
    print(f"\n{len(mine)} of {len(stories)} stories have the word {word}")
    if not mine:
        sys.exit(f"no story has the word {word}: choose another one for --about")
    before, whole = weight_bytes(), model.state_dict()
    errors: dict[str, Any] = dict(model.quantize("int8"))
    print(f"int8: {weight_bytes() / 1e6:.1f} MB of {before / 1e6:.1f}, errors up to {max(errors.values()):.3f}")
    adapter = wy.nn.LoRA(model, options.rank, alpha=2.0 * options.rank, targets="blocks.*", seed=options.seed)
    fit(END + END.join(mine), adapter.parameters(), options.tune_epochs, sizes.learning_rate)
    tuned = tell(20)
    counts = [sum(has_word(story) is not None for story in each) for each in (told, tuned)]
    print(f"{word} is in {counts[0]} of {len(told)} stories of the base, and in {counts[1]} of the fine-tuned model")
    print(*tuned[:3], sep="\n")
    if options.save is None:
        return
    adapter.save_pretrained(options.save / "adapter")
    merged = wy.nn.Decoder(model.config)
    merged.load_state_dict(whole)
    wy.nn.LoRA.from_pretrained(merged, options.save / "adapter").merge()
    save(merged, options.save / "tuned")


if options.about is not None:
    fine_tune(options.about)

# %%
if pictures and history is not None:
    pictures.curves("A small Llama", history, {"loss": "cross-entropy (nats)"})
