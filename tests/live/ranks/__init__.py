"""Servers whose model is computed by several processes."""
