"""A chat with a language model, as `python -m wyrm chat` holds it in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from typing_extensions import Unpack

from wyrm.errors import CheckpointError, ShapeError
from wyrm.graph.parameters import NarrowType
from wyrm.nn.cached_decoder import CachedDecoder
from wyrm.nn.decoder import Decoder
from wyrm.nn.gpt2 import GPT2
from wyrm.nn.lora import LoRA
from wyrm.nn.texts.generation import GenerationOptions
from wyrm.nn.texts.text_generation import generate_text
from wyrm.support.files import FilePath

if TYPE_CHECKING:
    from wyrm.io.tokenizers import PretrainedTokenizer


def pretrained(
    directory: FilePath, storage: NarrowType | Literal["float32"] = "float32", adapter: FilePath | None = None
) -> GPT2 | Decoder:
    """Return the model in a folder of transformers, a GPT-2 or else a decoder, with weights of a storage.

    With the folder of an `adapter`, its matrices are added to weights of float32, and stand beside narrow ones. Raise
    what `from_pretrained` of models and of `LoRA` raises.
    """
    from wyrm.io.pretrained import CONFIG, read_json

    contents = read_json(f"{directory}/{CONFIG}")
    is_gpt2 = isinstance(contents, dict) and contents.get("model_type") == "gpt2"
    model = GPT2.from_pretrained(directory) if is_gpt2 else Decoder.from_pretrained(directory)
    if storage != "float32":
        model.quantize(storage)
    if adapter is not None:
        matrices = LoRA.from_pretrained(model, adapter)
        if storage == "float32":
            matrices.merge()
    return model


def converse(
    decoder: CachedDecoder,
    tokenizer: PretrainedTokenizer,
    lines: Iterable[str],
    write: Callable[[str], None],
    *,
    system: str | None = None,
    max_new_tokens: int = 512,
    **options: Unpack[GenerationOptions],
) -> list[dict[str, str]]:
    """Answer each of the lines, and write the answers in pieces as they come; return the messages of the chat.

    The chat begins with the message `system`, if there is one. The decoder reads only what is new. Where a chat has no
    room for an answer of at least a quarter of the longest sequence, or of `max_new_tokens`, its oldest messages are
    forgotten, and read anew.

    Raise `ShapeError` for a line that alone leaves no room, and what `PretrainedTokenizer.chat` and `generate` raise.
    """
    chosen: GenerationOptions = {"stop": tokenizer.stop_tokens, **options}
    first = [] if system is None else [{"role": "system", "content": system}]
    messages = list[dict[str, str]]()
    longest = decoder.limits.longest
    forgotten = 0
    for line in lines:
        messages.append({"role": "user", "content": line})
        prompt = tokenizer.chat([*first, *messages[forgotten:]])
        least = max_new_tokens if longest is None else min(max_new_tokens, longest // 4)
        while longest is not None and len(prompt) + least > longest:
            forgotten += 2  # a question with its answer
            if forgotten >= len(messages):
                raise ShapeError(
                    f"a message of {len(prompt)} tokens leaves no room for an answer: the longest sequence has "
                    f"{longest}, {decoder.limits.name}"
                )
            prompt = tokenizer.chat([*first, *messages[forgotten:]])
        room = max_new_tokens if longest is None else min(max_new_tokens, longest - len(prompt))
        answer = ""
        for piece in generate_text(decoder, tokenizer, prompt, room, **chosen):
            write(piece)
            answer += piece
        write("\n")
        messages.append({"role": "assistant", "content": answer})
    return [*first, *messages]


def check_chats(tokenizer: PretrainedTokenizer) -> None:
    """Raise `CheckpointError` for a model that was not trained with chats."""
    if not tokenizer.templates:
        raise CheckpointError(
            "the tokenizer has no template of chats: this model continues texts, as wy.nn.generate_text does"
        )
