"""Outputs of a prompt's rows besides KV: one vector for the whole of it, and how likely each of its tokens was.

A request says what it wants (`PromptOutputs`), the planner what that means for the rows of one step (`RowsWanted`), and
the step gives it (`RowsGiven`), with the numbers that it reads at its end anyway.  Only the states after the last layer
are used, so families of all kinds can do it.

KV that was computed earlier has no such states.  So what needs the state of each row reads its whole prompt, whatever
of it is cached (`PromptOutputs.needs_all_rows`).

- `wanted`: these types, and `Pooling`
- `gather`: the numbers of one step, on the device and back
- `pooled`: from the sums of chunks to one vector
"""
