"""Anthropic's Messages API: its request bodies, messages, streams and errors, and the routes that serve them.

`routes.add_routes` is what an application needs.  Behind it `parse` makes a body, by what is in `prompts`, into what
the engine is to do, and `answers` has the messages and their streams.  `errors` has the shape of an error, and `models`
the model that is served.

`GET /v1/models` is shared with OpenAI's API (`web.apis.models`).
"""
