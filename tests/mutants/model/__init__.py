"""Bad edits of how a model is kept and computed: its weights, draws, several ranks, layers that were recorded."""
