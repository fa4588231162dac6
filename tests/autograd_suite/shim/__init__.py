"""The folder that stands first on the import path."""
