"""The engine's state over HTTP: health, slots, live requests, receipts, statistics; and the cancel of a request.

`routes.add_routes` is what an application needs.  `answers` describes what is answered.  None of this is of any other
server's API; errors have OpenAI's format.  `feed` tells all of it while it happens, and `visible` says what of it a key
sees.
"""
