"""Order of those who wait: classes of priority, and in each of them fair shares among owners.  Pure and synchronous.

Nothing here knows of slots, of tickets or of Trio; `actors.manager.admission` says who waits, what each costs and what
time it is, and is told who is next.
"""
