"""Texts of language models: their generation in characters, chats, and the sampling of tokens within graphs."""
