"""`python -m wyrm`: what there is. `watch RUN`: trainings in a browser. `chat FOLDER`: a language model that answers.

`recommend FILE.csv`: recommenders, compared. `cache info|clear`: compiled programs.
"""

from __future__ import annotations

import argparse
import sys

from wyrm.errors import WyrmError

# What `python -m wyrm` prints after the commands.
_MORE = """
more commands:
  python -m wyrm watch --help    the options of a command
  python -c "import wyrm; help(wyrm)"
                                 the reference, with a glossary; help(wyrm.nn) and so on of a package

packages:
  wyrm.nn, wyrm.losses, wyrm.optim, wyrm.train, wyrm.metrics, wyrm.data    models and their training
  wyrm.linalg, wyrm.special, wyrm.random                                   functions beside those of wyrm itself
  wyrm.io, wyrm.jax, wyrm.engines                                          files, JAX, what runs programs
  wyrm.view, wyrm.watch, wyrm.profile, wyrm.testing                        look at graphs and trainings, check ops"""
_RUNS_ON = ("numpy", "llvmlite", "scipy", "jax")


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="python -m wyrm",
        description="Look at trainings, chat with language models, compare recommenders, and manage compiled programs.",
    )
    parser.add_argument("--version", action="store_true", help="print the versions of wyrm and of what it runs on")
    commands = parser.add_subparsers(dest="command")
    actions = commands.add_parser("cache", help="compiled programs on disk").add_subparsers(
        dest="action", required=True
    )
    actions.add_parser("info", help="print where the cache is, how many programs it holds, and their size")
    actions.add_parser("clear", help="delete all files that wyrm wrote there")
    watch = commands.add_parser("watch", help="serve a page on this machine that shows trainings, live")
    watch.add_argument(
        "runs", nargs="+", metavar="RUN", help="the folder of a run, or one that holds runs at any depth"
    )
    watch.add_argument("--port", type=int, default=None, help="port of 127.0.0.1; 0 is any that is free")
    chat = commands.add_parser("chat", help="chat with a language model that transformers wrote to a folder")
    chat.add_argument("folder", metavar="FOLDER", help="config.json, the weights, and the tokenizer of a chat model")
    chat.add_argument("--adapter", default=None, metavar="FOLDER", help="matrices of low rank that peft has written")
    chat.add_argument("--system", default=None, help="the message that the chat begins with")
    chat.add_argument(
        "--storage", choices=("float32", "bfloat16", "int8", "int4"), default="float32", help="of weights"
    )
    chat.add_argument("--tokens", type=int, default=512, help="the most tokens of an answer")
    chat.add_argument("--temperature", type=float, default=0.7, help="0 takes the most likely token")
    chat.add_argument("--seed", type=int, default=0, help="of the draws")
    advise = commands.add_parser("recommend", help="fit recommenders to a CSV file, compare them, and write the best")
    advise.add_argument(
        "file", metavar="FILE.csv", help="with the columns user_id, item_id, and perhaps weight and time"
    )
    advise.add_argument("--k", type=int, default=10, help="the length of the lists that are measured")
    advise.add_argument("--held-out", type=int, default=5, help="the latest interactions of each user, to be found")
    advise.add_argument("--output", default=None, metavar="FILE", help="the file to write; default: FILE.safetensors")
    options = parser.parse_args()
    if options.version:
        _print_versions()
    elif options.command == "watch":
        _watch(options)
    elif options.command == "chat":
        _chat(options)
    elif options.command == "recommend":
        _recommend(options)
    elif options.command == "cache":
        _manage_cache(options)
    else:
        parser.print_help()
        print(_MORE)  # noqa: T201  # the output


def _print_versions() -> None:
    """Print the versions of wyrm, Python and the packages that wyrm uses, one a line."""
    import importlib.metadata
    import platform

    import wyrm

    print(f"wyrm {wyrm.__version__}")  # noqa: T201  # the output
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")  # noqa: T201
    for name in _RUNS_ON:
        try:
            print(f"{name} {importlib.metadata.version(name)}")  # noqa: T201
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed")  # noqa: T201


def _watch(options: argparse.Namespace) -> None:
    from wyrm.watch.serving import PORT, serve

    def ready(address: str) -> None:
        print(f"{address}  (Ctrl-C ends the server; trainings go on)", flush=True)  # noqa: T201  # the output

    try:
        serve(options.runs, port=PORT if options.port is None else options.port, ready=ready)
    except KeyboardInterrupt:
        pass
    except (WyrmError, ImportError) as error:
        sys.exit(str(error))


def _chat(options: argparse.Namespace) -> None:
    from collections.abc import Iterator

    from wyrm.io.tokenizers import tokenizer
    from wyrm.nn.cached_decoder import CachedDecoder
    from wyrm.nn.texts.chat import check_chats, converse, pretrained

    def lines() -> Iterator[str]:
        while True:
            try:
                yield input("> ")
            except EOFError:
                return

    def write(piece: str) -> None:
        print(piece, end="", flush=True)  # noqa: T201  # the answer

    try:
        texts = tokenizer(options.folder)
        check_chats(texts)
        model = pretrained(options.folder, options.storage, options.adapter)
        converse(
            CachedDecoder(model), texts, lines(), write, system=options.system, max_new_tokens=options.tokens,
            temperature=options.temperature, min_p=0.05, seed=options.seed,
        )  # fmt: skip
    except KeyboardInterrupt:
        pass
    except (WyrmError, ImportError) as error:
        sys.exit(str(error))


def _recommend(options: argparse.Namespace) -> None:
    import pathlib

    from wyrm.estimators.recommenders.comparing import compare, table
    from wyrm.estimators.recommenders.reading import as_interactions

    try:
        interactions = as_interactions(options.file)
        print(interactions, flush=True)  # noqa: T201  # the output
        found = compare(interactions, k=options.k, held_out=options.held_out)
        print(table(found, options.k), flush=True)  # noqa: T201
        path = options.output or pathlib.Path(options.file).with_suffix(".safetensors")
        best = found[0].model.fit(interactions)
        best.save(path)
        print(f"wrote {path}: {best}, fitted to all interactions")  # noqa: T201
    except (WyrmError, ImportError) as error:
        sys.exit(str(error))


def _manage_cache(options: argparse.Namespace) -> None:
    from wyrm.engines.native.llvm import cache

    store = cache.store()
    entries, left = store.entries(), {}
    if options.action == "clear":
        left = store.clear()
    found = [path for path in entries if path not in left]
    programs = sum(path.suffix == ".link" for path in found)
    what = f"{programs} programs, {sum(entries[path] for path in found) / 2**20:.1f} MiB"
    if options.action == "clear":
        print(f"deleted {what}, from {store.folder}")  # noqa: T201  # the command's output
    else:
        print(f"{store.folder}: {what}")  # noqa: T201  # the command's output
        if reason := store.refusal():
            print(f"it is not used: {reason}")  # noqa: T201  # the command's output
    if left:
        sys.exit("\n".join(f"cannot delete {str(path)!r}: {reason}" for path, reason in left.items()))


if __name__ == "__main__":
    main()
