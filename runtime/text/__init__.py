"""Text and tokens, without torch: tokenizer, incremental detokenising, stop strings, prompt lookup.

Everything here is pure, or unchanged after loading, so any thread may use it.  It rests on `checkpoint`, `common` and
`runtime.errors`; `web` encodes with it, `actors` turn output into text and look drafts up.

- `tokenizer`: `Tokenizer`; `token_bytes`: the bytes of one token; `prompt_tokens`: `encode_within`
- `text_stream`: `TextStream`, `Detokenizer`; `stop_strings`: `StopAutomaton`, `StopMatcher`
- `lookup`: `PromptLookup`; `infill`: `InfillTokens`
"""
