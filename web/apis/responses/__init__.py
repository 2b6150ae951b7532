"""OpenAI's Responses API: its bodies, its objects and events, and what is stored of them.

- `input`: the request's body, its items and tools as parts of a `Conversation`
- `output`: the response object, its items and the events that tell of them
- `conversion`: a body as an `Asked`
- `stored`: responses as stored objects, and those that run in the background
- `answering`: the handlers of what generates · `retrieval`, `conversations`: the routes of what is stored
- `routes`: what an application needs; `answers` are what is answered
"""
