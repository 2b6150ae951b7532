"""Cancels everywhere: before every step of any task, in any scenario that hypothesis or an integer draws."""
