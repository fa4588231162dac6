"""The tokenizer and the chat template of a pretrained model, from the folder that transformers lays out."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import CheckpointError, DTypeError, IndexOutOfRange
from wyrm.graph.arrays import as_array
from wyrm.io.pretrained import CONFIG, read_json
from wyrm.support.files import FilePath

# The files: a tokenizer of the package tokenizers, one of sentencepiece, and what belongs to either.
_FAST, _PIECES, _OPTIONS, _SPECIAL = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"
)  # fmt: skip
_TEMPLATE, _NAMED_TEMPLATES, _GENERATION = "chat_template.jinja", "additional_chat_templates", "generation_config.json"
# The template without a name, and the one for messages with tools.
_DEFAULT, _TOOLS = "default", "tool_use"


def tokenizer(directory: FilePath) -> PretrainedTokenizer:
    """Return the tokenizer of the model in a folder, which `from_pretrained` of models reads.

    The folder has `tokenizer.json`, which needs the package `tokenizers`, or else `tokenizer.model`, which needs
    `sentencepiece`. `tokenizer_config.json` names the special tokens. The template of chats stands there or in
    `chat_template.jinja`. What is missing there, the tokenizer does without.

    Raise `CheckpointError` for a folder without a tokenizer and for damaged files, `ImportError` without the package.

    >>> tokenizer("missing")
    Traceback (most recent call last):
    wyrm.errors.CheckpointError: 'missing' has no tokenizer.json and no tokenizer.model
    """
    folder = Path(directory)
    options, special = _contents(folder / _OPTIONS), _contents(folder / _SPECIAL)
    named = _special_tokens({**special, **options})
    codec: _Codec
    if (folder / _FAST).is_file():
        codec = _Fast(folder / _FAST)
    elif (folder / _PIECES).is_file():
        codec = _Pieces(folder / _PIECES, options)
    else:
        raise CheckpointError(f"{os.fspath(directory)!r} has no {_FAST} and no {_PIECES}")
    ends = _contents(folder / _GENERATION).get("eos_token_id", _contents(folder / CONFIG).get("eos_token_id"))
    stop = [ends] if isinstance(ends, int) else list(ends or ())
    stop += [codec.token_to_id(named["eos_token"])] if "eos_token" in named else []
    known = [each for each in dict.fromkeys(stop) if isinstance(each, int) and 0 <= each < codec.size]
    return PretrainedTokenizer(codec, named, _templates(folder, options), tuple(known))


class _Codec(Protocol):
    """What turns texts into tokens and back."""

    size: int

    def encode(self, text: str, special: bool) -> list[int]: ...
    def decode(self, tokens: list[int], special: bool) -> str: ...
    def token_to_id(self, token: str) -> int | None: ...
    def to_json(self) -> str: ...


class PretrainedTokenizer:
    """The tokenizer of a pretrained model; `wy.io.tokenizer(folder)` makes it.

    `stop_tokens` are those that end a text, for `wy.nn.generate(stop=)`. `special_tokens` has the texts of special
    tokens by their names, such as `"bos_token"`. `templates` has the templates of chats by their names.

    >>> import json, pathlib, tempfile
    >>> template = "{% for message in messages %}{{ message.role }}: {{ message.content }};{% endfor %}"
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = pathlib.Path(name)
    ...     wy.data.Tokenizer.train("a text", vocab_size=260).save(folder / "tokenizer.json")
    ...     _ = (folder / "chat_template.jinja").write_text(template)
    ...     found = wy.io.tokenizer(folder)
    >>> found.decode(found.encode("Any text: é"))
    'Any text: é'
    >>> found.chat_text([{"role": "user", "content": "Hello"}])
    'user: Hello;'
    """

    def __init__(
        self, codec: _Codec, special_tokens: Mapping[str, str], templates: Mapping[str, str],
        stop_tokens: tuple[int, ...],
    ) -> None:  # fmt: skip
        self._codec = codec
        self.special_tokens: dict[str, str] = dict(special_tokens)
        self.templates: dict[str, str] = dict(templates)
        self.stop_tokens: tuple[int, ...] = stop_tokens

    @property
    def vocab_size(self) -> int:
        """The number of tokens, including special ones; the table of a model may have more rows."""
        return self._codec.size

    def token_to_id(self, token: str) -> int:
        """Return the number of a token, such as a special one; raise `CheckpointError` where there is none."""
        found = self._codec.token_to_id(token)
        if found is None:
            raise CheckpointError(f"the tokenizer has no token {token!r}")
        return found

    def to_json(self) -> str:
        """Return the contents of `tokenizer.json`; raise `CheckpointError` for a tokenizer that has another file."""
        return self._codec.to_json()

    def encode(self, text: str, *, special: bool = True) -> NDArray[np.int64]:
        """Return the tokens of a text, (tokens,).

        With `special`, those come before and after it that the model was trained with, such as one that begins a text.
        Special tokens in the text are such tokens in any case. Raise `DTypeError` for what is no text.
        """
        if not isinstance(text, str):
            raise DTypeError(f"a tokenizer encodes a string, not {type(text).__name__}")
        return np.array(self._codec.encode(text, special), np.int64)

    def decode(self, tokens: Sequence[int] | NDArray[np.integer], *, special: bool = False) -> str:
        """Return the text of tokens, of special ones only with `special`; invalid UTF-8 becomes U+FFFD.

        Raise `DTypeError` for what is no list of integers, `IndexOutOfRange` for a number that is no token.
        """
        given = as_array(tokens)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise DTypeError(f"a tokenizer decodes integers in one axis, not {given.dtype} of shape {given.shape}")
        outside = given[(given < 0) | (given >= self.vocab_size)]
        if outside.size:
            raise IndexOutOfRange(f"a token is {outside[0]}; it must be in 0..{self.vocab_size - 1}")
        return self._codec.decode(given.tolist(), special)

    def chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        reply: bool = True,
        template: str | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        **variables: object,
    ) -> NDArray[np.int64]:
        """Return the tokens of a chat, (tokens,): those of `chat_text`, which has all special tokens that it needs."""
        text = self.chat_text(messages, reply=reply, template=template, tools=tools, **variables)
        return self.encode(text, special=False)

    def chat_text(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        reply: bool = True,
        template: str | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        **variables: object,
    ) -> str:
        """Return the text of a chat as the model was trained with it, by its template.

        A message is `{"role": "user", "content": "Hello"}`; roles are "system", "user" and "assistant", and others that
        the template has. With `reply`, the text ends where the answer of the assistant begins. `template` is the name
        of one of `templates`, or a template in Jinja; by default that of `tools`, if there are any, or the default one.
        `variables` are for the template, such as `enable_thinking=False`. Special tokens in a message have their
        meaning: remove them from texts of strangers.

        A template runs in Jinja's sandbox: it sees what it is given, and nothing else. It needs the package `jinja2`.

        Raise `CheckpointError` for a model without a template and for one that fails or refuses the messages,
        `DTypeError` for messages that are not plain data.
        """
        source = self._template(template, bool(tools))
        given = {
            "messages": _copy_for_templates(messages),
            "tools": _copy_for_templates(tools),
            "documents": None,
        } | _copy_for_templates(variables)
        return _rendered(source, {**self.special_tokens, **given, "add_generation_prompt": reply})

    def _template(self, name: str | None, has_tools: bool) -> str:
        """Return the text of a template."""
        if name is not None:
            return self.templates.get(name, name)
        for each in (_TOOLS, _DEFAULT) if has_tools else (_DEFAULT,):
            if each in self.templates:
                return self.templates[each]
        names = f"; it has {', '.join(map(repr, self.templates))}" if self.templates else ""
        raise CheckpointError(
            f"the tokenizer has no template of chats{names}: give one, as in chat(messages, template=text)"
        )

    def __repr__(self) -> str:
        return f"PretrainedTokenizer({self.vocab_size} tokens)"


class _Fast:
    """A tokenizer of the package `tokenizers`."""

    def __init__(self, file: Path) -> None:
        package = _package("tokenizers")
        try:
            self._inner = package.Tokenizer.from_buffer(file.read_bytes())
        except Exception as error:  # the package raises plain exceptions
            raise CheckpointError(f"{os.fspath(file)!r} holds no tokenizer: {error}") from error
        self.size: int = max(self._inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str, special: bool) -> list[int]:
        found: list[int] = self._inner.encode(text, add_special_tokens=special).ids
        return found

    def decode(self, tokens: list[int], special: bool) -> str:
        return str(self._inner.decode(tokens, skip_special_tokens=not special))

    def token_to_id(self, token: str) -> int | None:
        found: int | None = self._inner.token_to_id(token)
        return found

    def to_json(self) -> str:
        return str(self._inner.to_str())


class _Pieces:
    """A tokenizer of the package `sentencepiece`, with the tokens that its options add."""

    def __init__(self, file: Path, options: Mapping[str, Any]) -> None:
        package = _package("sentencepiece")
        try:
            self._inner = package.SentencePieceProcessor(model_proto=file.read_bytes())
        except Exception as error:  # the package raises plain exceptions
            raise CheckpointError(f"{os.fspath(file)!r} holds no model of sentencepiece: {error}") from error
        pieces = self._inner.vocab_size()
        self._special = {
            self._inner.id_to_piece(each): each
            for each in range(pieces)
            if self._inner.is_control(each) or self._inner.is_unknown(each)
        }
        added = options.get("added_tokens_decoder", {})
        self._special |= {_text_of(each): int(number) for number, each in added.items()}
        self._by_number = {number: token for token, number in self._special.items()}
        self.size: int = max([pieces, *(number + 1 for number in self._by_number)])
        longest_first = sorted(self._special, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
        begin, end = self._inner.bos_id(), self._inner.eos_id()
        self._begins: list[int] = [begin] if options.get("add_bos_token", True) and begin >= 0 else []
        self._ends: list[int] = [end] if options.get("add_eos_token", False) and end >= 0 else []
        # Older tokenizers add a space to each part of a text, newer ones only to its beginning.
        self._adds_spaces = bool(options.get("legacy", True))

    def encode(self, text: str, special: bool) -> list[int]:
        parts, found = [text] if self._split is None else self._split.split(text), list[int]()
        for place, part in enumerate(parts):
            if part in self._special:
                found.append(self._special[part])
            elif part:
                found += self._inner.encode(part) if place == 0 or self._adds_spaces else self._continued(part)
        return [*self._begins, *found, *self._ends] if special else found

    def _continued(self, text: str) -> list[int]:
        """Return the tokens of a text without the space that is added to its beginning."""
        before = "<unk>"
        found: list[int] = self._inner.encode(before + text)
        return found[len(self._inner.encode(before)) :]

    def decode(self, tokens: list[int], special: bool) -> str:
        parts, run = list[str](), list[int]()
        for token in tokens:
            if token not in self._by_number:
                run.append(token)
            elif special:
                parts += [self._inner.decode(run), self._by_number[token]]
                run = []
        return "".join([*parts, self._inner.decode(run)])

    def token_to_id(self, token: str) -> int | None:
        if token in self._special:
            return self._special[token]
        found = self._inner.piece_to_id(token)
        return found if self._inner.id_to_piece(found) == token else None

    def to_json(self) -> str:
        raise CheckpointError(
            f"the tokenizer is of {_PIECES}, without {_FAST}: transformers.AutoTokenizer.from_pretrained(folder) and "
            f"save_pretrained(folder) write it"
        )


def _package(name: str) -> ModuleType:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this needs the package {name!r}, which cannot be imported ({error}); install it with "
            f"pip install 'wyrm-autodiff[chat]', or pip install {name}"
        ) from error


def _contents(file: Path) -> dict[str, Any]:
    """Return what a file of options has; nothing where there is no such file."""
    if not file.is_file():
        return {}
    found = read_json(file)
    if not isinstance(found, dict):
        raise CheckpointError(f"{os.fspath(file)!r} holds no options")
    return found


def _text_of(token: object) -> str:
    """Return the text of a token, which options give alone or with more."""
    found = token.get("content") if isinstance(token, Mapping) else token
    if not isinstance(found, str):
        raise CheckpointError(f"the options of a tokenizer have the token {token!r}, which has no text")
    return found


def _special_tokens(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of special tokens by their names."""
    return {
        name: _text_of(token)
        for name, token in options.items()
        if name.endswith("_token") and isinstance(token, str | Mapping)
    }


def _templates(folder: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the templates of chats by their names."""
    given = options.get("chat_template", {})
    found: dict[Any, Any] = {}
    if isinstance(given, str):
        found[_DEFAULT] = given
    elif isinstance(given, list):
        found |= {each.get("name"): each.get("template") for each in given if isinstance(each, dict)}
    files = [folder / _TEMPLATE, *sorted((folder / _NAMED_TEMPLATES).glob("*.jinja"))]
    for file in files:
        if file.is_file():
            try:
                found[_DEFAULT if file.name == _TEMPLATE else file.stem] = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise CheckpointError(f"cannot read {os.fspath(file)!r}: {error}") from error
    if not all(isinstance(part, str) for pair in found.items() for part in pair):
        raise CheckpointError(f"{os.fspath(folder / _OPTIONS)!r} has a chat_template that is no text")
    texts: dict[str, str] = found
    return texts


def _copy_for_templates(given: object) -> Any:
    """Return a copy of data as dicts, lists, texts and numbers, which is all that a template sees."""
    try:
        return json.loads(json.dumps(given, default=_as_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise DTypeError(
            f"a chat is plain data, as in [{{'role': 'user', 'content': 'Hello'}}], not {given!r}: {error}"
        ) from error


def _as_plain(given: object) -> Any:
    if isinstance(given, Mapping):
        return dict(given)
    raise TypeError(f"{type(given).__name__} is no plain data")


def _rendered(source: str, variables: Mapping[str, Any]) -> str:
    """Return what a template makes of its variables."""
    jinja = _package("jinja2")
    sandbox, nodes, extension = (importlib.import_module(f"jinja2.{name}") for name in ("sandbox", "nodes", "ext"))

    class Generation(extension.Extension):  # type: ignore[name-defined, misc]  # the package is optional
        """The tag `generation`, which marks what the assistant says."""

        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def refuse(message: str) -> None:
        raise jinja.TemplateError(message)

    def as_json(
        value: object, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None,
        sort_keys: bool = False,
    ) -> str:  # fmt: skip
        # Jinja's own filter escapes characters of HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment: Any = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, extension.loopcontrols]
    )
    environment.filters["tojson"] = as_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    try:
        return str(environment.from_string(source).render(**variables))
    except (jinja.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise CheckpointError(f"the template of chats refuses the messages: {error}") from error
