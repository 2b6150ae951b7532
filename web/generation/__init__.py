"""Common parts of every API's generation endpoints, whatever their wire format: prompts, answers, the way between them.

An API turns a body into an `Asked`, and the engine's events into its own words with a `Formatter`.

- `asked`: `Asked`, a request that was understood, `generation_request`, by which each is made, and `CommonFields`, the
  fields of a body that it reads whatever the API, such as how important it is
- `answer`: `Formatter`, which streams an answer or gathers it, and `Gathered`, what it has said so far
- `responder`: `Responder`, which opens it and answers, streaming or whole, and may keep the answer
- `prompts`: conversations and texts as token ids, within the context; the parameters of tools that declare none
- `sampling`: `SamplingFields`, the sampling parameters of every body, and what comes of them over the server's defaults
- `grammars`: what an answer must be, from a body's fields to one `Grammar`
- `passed_over`: what clients send and nothing here reads; `IgnoredFields`, what is told of fields that nobody knows
- `infill`: prompts for filling in the middle
- `answer_parts`: `AnswerParts`, the engine's events as the parts of an answer, as each API needs them; how likely a
  token was
- `control`: what a request says of its own fate, and groups
- `embeddings`: texts as vectors
- `openai_format`: OpenAI's bodies and answers, which other APIs have as well
"""
