"""Real models, downloaded once and kept: tokens, tokenizers and templates are those of the reference libraries."""
