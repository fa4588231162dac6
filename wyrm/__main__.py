"""`python -m wyrm cache info|clear`: show or delete the compiled programs on disk."""

from __future__ import annotations

import argparse
import sys

from wyrm.backends.llvm import cache


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m wyrm", description="Manage the cache of compiled programs.")
    commands = parser.add_subparsers(dest="command", required=True)
    actions = commands.add_parser("cache", help="compiled programs on disk").add_subparsers(
        dest="action", required=True
    )
    actions.add_parser("info", help="print where the cache is, how many programs it holds, and their size")
    actions.add_parser("clear", help="delete all files that wyrm wrote there")
    options = parser.parse_args()
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
