"""Checks of the source itself: who imports what, how large things are, where tests lie, what the pages say."""
