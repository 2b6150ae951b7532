"""The Responses API: its events against OpenAI's own models, what is stored, and what runs in the background."""
