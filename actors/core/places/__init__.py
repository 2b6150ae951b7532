"""The slots' records, and where their sequences lie in the arena of KV.

For `actors.core.slots`, whose parts these are; nobody else makes or changes them.
"""
