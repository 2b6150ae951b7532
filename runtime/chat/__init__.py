"""Conversation with a model: its chat template, the format of its tool calls and of its reasoning.

Pure: text in, parts out, and nothing known of HTTP, requests or tensors.

- `conversation`: what a client asks, in plain data; every API makes it of its own messages
- `template`: `ChatTemplate`, a conversation as the checkpoint's own template writes it
- `traits`: what a template reads of a conversation
- `messages`: turns and tools as templates expect them; `turns`: turns in the order that a template takes
- `chat`: `Chat`, all of it for one model: prompts, parsers and grammars
- `parts`: what the text of an answer means; every API writes its own format from them
- `reasoning`: what a model thinks before it answers
- `lark`: the grammars of answers
- `reading`: answers piece by piece
- `formats`: the formats of families
"""
