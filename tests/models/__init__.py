"""Models, checkpoints and tokenizers for tests, and drivers of steps, samplers and drafters without a server.

`chi_square` says whether what was drawn fits what it should have been drawn from.
"""
