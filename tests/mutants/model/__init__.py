"""Bad edits of how a model is computed: by several ranks."""
