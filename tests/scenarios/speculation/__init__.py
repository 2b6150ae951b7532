"""Drafts in a whole engine and over real models: the text is that of plain decoding."""
