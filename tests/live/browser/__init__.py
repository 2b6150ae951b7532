"""A real browser against real servers: pages that may ask, pages that may not, and the server's own page.

chromium   Chromium, a headless browser in a thread of its own; its fixture is in conftest.py
watching   Watched: what a page asks for, and its complaints
rules      what axe-core says against a page
pages      PageServer: where pages of other origins come from
attack.js  all that a page can try, in the page
"""
