"""Requests that may outlive their clients: those that are detached at a hang-up, and those that begin without a client.

- `event_log`: the events of an answer, kept, so that several may follow it and come back to it
- `run`: such a request as others see it, and who reads it; those that have ended, within a bound
- `disconnects`: what a hang-up means: the one place where that is decided
- `runs`: their owner, with bounds on their number, time, tokens and bytes
- `makers`: what makes of the engine's events a log, for every API: a stream, or a whole answer
- `attaching`: the responses that read such a request
- `routes`: how clients come back

A client's connection is only a reader of such a request, whose task is `runs.Runs`'.  All other requests live in their
client's scope, as ever, and nothing here is asked of them.
"""
