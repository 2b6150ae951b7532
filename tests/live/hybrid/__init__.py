"""Servers of small hybrids, LFM2 and Qwen3.5: clients hang up on them, come back, and go on otherwise than they did."""
