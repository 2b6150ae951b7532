"""The formats of families: what scripted answers become, and what their grammars accept."""
