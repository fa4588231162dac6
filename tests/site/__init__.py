"""The site, `docs`: its code runs, its outputs are those of today, its links lead somewhere."""
