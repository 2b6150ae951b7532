"""Access: who may ask, and how much, by API keys.

It knows nothing of HTTP but the headers' names; `web.http.asgi` has the key of each request, and `web.serving.app` asks
for it.

    api_keys   ApiKey, KeyRing: the keys that are served, and which of them a request has
    key_file   read_keys, KeyFile: the file in which they stand, and its changes; SIGHUP, by which it is read again
    usage      KeyUsage, TokenMeter: what each key takes, and who gets no more for now
"""
