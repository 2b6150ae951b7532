"""Preemption: which scenarios draw those who leave their slots to others, and I23."""
