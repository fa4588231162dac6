"""What builds the site beside Sphinx: the pages of the reference, short signatures, examples as pages."""

from __future__ import annotations

from pathlib import Path


def write_pages(docs: Path) -> None:
    """Write the generated pages below the folder of the site's sources."""
    from building.examples import write_examples
    from building.reference import write_reference

    write_reference(docs / "reference" / "api")
    write_examples(docs / "learn" / "examples")
