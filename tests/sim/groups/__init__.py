"""Requests that belong together: how they are drawn, and what must hold of them."""
