"""Bad edits of KV: in slots, in blocks outside them, in rings and in pages; of states."""
