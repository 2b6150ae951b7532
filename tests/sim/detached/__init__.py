"""Requests that may outlive their clients, in the simulation, and what must hold of them: I24."""
