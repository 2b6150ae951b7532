"""Programs that measure the engine and its parts in this process, without HTTP: `python -m bench.engine.NAME`.

`kv.arena`, `overhead`, `roofline`, `scaling`, `cache`, `accuracy`, `speculation`, `draft_policies`, `grammars`, `busy`,
`memory.held`, `memory.lengths`, `event_loop.cpu_time` and `serving` (the last three start servers) are programs, and
`grow` makes a model for them.  `models` is what they share, `tasks` what `speculation` asks for, and `llama_server` is
what `accuracy` asks llama.cpp by.
"""
