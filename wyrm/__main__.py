"""`python -m wyrm cache info|clear`: what compiled programs take on disk, and deleting them."""

from __future__ import annotations

import argparse

from wyrm.engine.native import cache


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m wyrm", description="Look after the cache of compiled programs.")
    commands = parser.add_subparsers(dest="command", required=True)
    actions = commands.add_parser("cache", help="compiled programs on disk").add_subparsers(
        dest="action", required=True
    )
    actions.add_parser("info", help="print where the cache is, how many programs it holds, and their size")
    actions.add_parser("clear", help="delete all of it")
    options = parser.parse_args()
    files = cache.files()
    size = sum(path.stat().st_size for path in files)
    programs = sum(path.suffix == ".py" for path in files)
    if options.action == "clear":
        cache.clear()
        print(f"deleted {programs} programs, {size / 2**20:.1f} MiB, from {cache.folder()}")  # noqa: T201  # the answer
    else:
        print(f"{cache.folder()}: {programs} programs, {size / 2**20:.1f} MiB")  # noqa: T201  # the answer


if __name__ == "__main__":
    main()
