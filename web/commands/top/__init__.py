"""`cede top`: what a server does, live at a terminal.

    command   the command
    sample    what a server says of itself in one moment; pure
    overview  what is shown of samples: speeds, waiting times, what is chosen; pure
    screen    drawing it, with rich
    watch     the tasks: asking the server, reading keys

It is rich that draws, and not textual: the screen is four tables that are drawn anew each second, and all that happens,
keys included, happens in Trio's tasks; textual would bring asyncio and an application of its own for that.  The server
is asked at an interval: a person reads one picture a second, and needs no feed of each step (`GET /v1/events`).
"""
