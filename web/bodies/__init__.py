"""Request and response bodies, as far as any API over JSON needs them: nothing in here knows OpenAI's names or shapes.

Requests: `body_parser` parses a body in the event loop or in a worker thread, `json_size` bounds what parsing costs,
`strict_model` and `fields` are what schemas are made of, `validation_errors` words what is wrong, and `prompt_tokens`
turns text into token ids within the context.  Responses: `json_encoding` and `page_buffer` make long JSON in small
steps, `json_types` are the types of answers that hold it, `paged_response` sends a whole response, `json_response` a
short one, and `event_stream` a stream of server-sent events; `stream_body` is what such bodies have in common, and
`collect` gathers events into one object.  `query` reads query strings, and makes pages of lists; `errors` makes
responses of whatever was raised.  An API, such as `web.apis.openai`, builds on this package; this package imports
nothing of any API.
"""
