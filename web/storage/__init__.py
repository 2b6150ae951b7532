"""Objects that outlive the request that made them: stored answers, on disk or in memory.

- `objects`: `StoredObject`, and what a listing may ask for
- `database`: `ObjectDatabase`, the objects in SQLite; synchronous
- `files`: the database's file: who may read it, who has it open, and what is done with a damaged one
- `store`: `ObjectStore`, the same for the event loop, with all work in one thread at a time
"""
