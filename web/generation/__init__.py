"""What every API's generation endpoints share, whatever their wire format: prompts, answers, and the way between them.

An API turns a body into an `Asked`, whose writer and collector turn the engine's events into its own format.

- `asked`: `Asked`, a request that was understood
- `responder`: `Responder`, which opens it and answers, streaming or whole
- `keeping`: `KeepingWriter`, which gathers a stream to be stored
- `prompts`: conversations and texts as token ids, within the context
- `sampling`: sampling parameters from a body's fields, over the server's defaults
- `tools`: the parameters of tools that declare none
- `grammar_fields`, `grammars`: what an answer must be, from a body's fields to one `Grammar`
- `tiers`: how important a request is
- `logprobs`: how likely a token was
- `ignored`: `IgnoredFields`, what is told of fields that mean nothing
- `infill`: prompts for filling in the middle
- `answer_parts`: `AnswerParts`, the engine's events as the parts of an answer; `shown_parts`: parts as some APIs need
  them
"""
