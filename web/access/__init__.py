"""Who may ask, and how much: API keys.

It knows nothing of HTTP but the headers' names; `web.http.asgi` has the key of each request, and `web.app` asks for it.
"""
