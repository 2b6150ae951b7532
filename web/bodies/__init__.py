"""Request and response bodies, as far as any API over JSON needs them: nothing in here knows OpenAI's names or shapes.

Requests: `body_parser` parses a body in the event loop or in a worker thread, `json_size` bounds what parsing costs,
`strict_model` and `fields` are what schemas are made of, `validation_errors` words what is wrong, and `prompt_tokens`
turns text into token ids within the context.  Responses: `json_encoding` and `page_buffer` make long JSON in small
steps, `responses` sends a short response, or a whole one page by page, and `event_stream` a stream of server-sent
events; `collect` gathers events into one object.  `query` reads query strings, and makes pages of lists; `errors` makes
responses of whatever was raised.  An API, such as `web.apis.openai`, builds on this package; this package imports
nothing of any API.
"""
