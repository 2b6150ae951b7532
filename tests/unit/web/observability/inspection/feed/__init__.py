"""The feed over the simulated engine, in virtual time."""
