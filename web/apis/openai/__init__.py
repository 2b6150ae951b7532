"""OpenAI's API: chats, completions and embeddings, and the routes that serve them.

`routes.add_routes` is what an application needs.  Behind it `chat`, `completions` and `embeddings` each have the
function that parses an endpoint's body, `stored` has what is kept of chats, and `models` the model that is served.

The bodies and answers that other APIs have as well, those of chats among them, are in `web.generation.openai_format`.
"""
