"""An agent with three tools: what it does, how models of each family write it, and the APIs that it speaks.

- `families`: answers as each family writes them
- `wires`: the four wire formats that have tools
- `loop`: the loop over one of them
"""
