"""Fixtures that every test may ask for."""

from tests.browser import browser, open_page

__all__ = ["browser", "open_page"]
