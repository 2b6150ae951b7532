"""The chat: its modules under Node, and the whole of it in a real browser against a real server.

`*.test.js` are the tests of what needs no browser; `test_modules.py` runs them.
"""
