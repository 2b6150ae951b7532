"""Bad edits of how a model is computed: by several ranks, and by layers that were recorded."""
