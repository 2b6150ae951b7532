"""Small things that all of cede uses, none of which knows a model or torch.

- `options`: `Option`, what whoever runs a server may choose
- `units`: sizes and durations as people write them; `log_text`: text from outside as it may be shown
- `file_lock`: a lock of a file between processes
- `ownership`: the one task that may change a piece of state
- `host_memory`: how much of the host's memory can be used; `processor`: the processor's name
"""
