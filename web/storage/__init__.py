"""Storage of what outlives its request: answers, on disk or in memory; and requests that outlive their clients.

- `objects`: `StoredObject`, what a listing may ask for, and items as JSON values
- `database`: `ObjectDatabase`, the objects in SQLite; synchronous · `schema`: its tables, and those of earlier versions
- `rows`: objects without their items · `parts`: their bodies and items · `clock`: `StoreClock`, by which they grow old
- `files`: the database's file: who may read it, who has it open, and what is done with a damaged one
- `store`: `ObjectStore`, the same for the event loop, with all work in one thread at a time; what is not there raises
- `detached`: requests that may outlive their clients, which the objects know nothing of
"""
