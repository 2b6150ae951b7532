"""Programs that measure the engine and its parts in this process, without HTTP: `python -m bench.engine.NAME`.

`overhead`, `roofline`, `scaling`, `cache`, `accuracy`, `speculation`, `draft_policies`, `busy` and `serving` (which
starts a server) are programs, and `grow` makes a model for them.  `shapes`, `bare_model` and `open_models` are what
they share, and `llama_server` is what `accuracy` asks llama.cpp by.
"""
