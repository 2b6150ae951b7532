"""OpenAI's API: its request bodies, response objects and errors, and the routes that serve them.

`routes.add_routes` is what an application needs.  Behind it `chat` and `completions` each have an endpoint's schema,
the function that parses its body, and the shape of its response; what they share is in `schemas` and `requests` for
the way in, and in `answers` for the way out.  `embeddings` is the third such endpoint, `stored` has what is kept of
chats, and `models` the model that is served.  `errors` has the shape of an error, `operations` all of it for the
OpenAPI document.  What another API over JSON would need as well is in `web.bodies` and `web.generation`.
"""
