"""Bad edits of how a model is kept and computed: its weights, several ranks, layers that were recorded."""
