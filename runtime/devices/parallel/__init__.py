"""One model computed by several ranks, each with its share of every layer's matrices (tensor parallelism).

Read in this order:

- `share`: how a model is divided, and what is refused
- `tensors`: a rank's share of the tensors of a checkpoint
- `marks`: cancels that all ranks agree on
- `shared_step`: a step's sums over all ranks, with the marks that ride in them
- `group`: the ranks, as one of them sees them, over `torch.distributed`
- `lines`: what rank 0 tells the others, and how
- `kv`: rank 0's view of KV whose heads are divided
"""
