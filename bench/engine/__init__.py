"""Programs that measure the engine and its parts, most in this process, without HTTP: `python -m bench.engine.NAME`.

Programs are `kv.sharing`, `overhead`, `roofline`, `scaling`, `cache`, `accuracy`, `speculation`, `draft_policies`,
`grammars`, `busy`, `models.sums` and `memory.held`; and `memory.lengths`, `event_loop.cpu_time`, `instruments` and
`serving`, which start servers.  `grow` makes a model for them.  `models` is what they share, `tasks` what `speculation`
asks for, and `llama_server` is what `accuracy` asks llama.cpp by.
"""
