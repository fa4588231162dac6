"""`python -m bench.report` writes the page, the pictures and the README's sentences anew from the files of results."""

from __future__ import annotations

from bench.report.draw import draw


def main() -> None:
    """Write the files, and say which changed."""
    for path in draw():
        print(path)


if __name__ == "__main__":
    main()
