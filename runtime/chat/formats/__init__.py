"""The formats in which families write tool calls.

Each is a `ToolFormat` (`format`): it reads an answer as parts, and says in a grammar what an answer may be.

- `hermes`, `listed`, `llama`, `mistral`, `deepseek`, `kimi`: JSON in different frames
- `qwen_xml`, `glm`, `minimax`: tags, with values that have no quotes
- `gemma`: objects whose keys have no quotes
- `harmony`: messages in channels, which hold what is thought, too
- `generic`: the same, for templates that know no tools
- `choose`: which of them a model has
"""
