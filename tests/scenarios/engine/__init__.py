"""Requests from the client's side: batches, queues, hang-ups, faults and bugs; `together` lets clients come at once."""
