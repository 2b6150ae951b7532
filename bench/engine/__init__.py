"""Programs that measure the engine and its parts in this process, without HTTP: `python -m bench.engine.NAME`.

`kv.arena`, `overhead`, `roofline`, `scaling`, `cache`, `accuracy`, `speculation`, `draft_policies`, `grammars`, `busy`,
`kv.lengths`, `event_loop.cpu_time` and `serving` (which start a server) are programs; `grow` makes a model for them.
`models` is what they share, `tasks` what `speculation` asks for, and `llama_server` what `accuracy` asks llama.cpp by.
"""
