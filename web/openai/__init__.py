"""OpenAI's API: its request bodies, response objects and errors, and the routes that serve them.

`routes.add_routes` is what an application needs.  Behind it `schemas` and `conversion` make a body into a
`conversion.ParsedRequest`, `chunks` writes its events as a stream, `response_builder` collects them into one response,
and `errors` has the shape of every refusal.  What another API over JSON would need as well is in `web.bodies`.
"""
