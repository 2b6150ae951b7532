"""`cede chat`: a conversation at a terminal.

    command        the command, and the lifetimes in it
    session        from what is typed to what is done
    conversation   messages and settings; pure
    slash          the commands that begin with a slash: their table, how they are read and completed; pure
    view           an answer on the screen, with rich, and how much of it is settled while the rest still comes
    prompt         reading a line, with prompt_toolkit

rich and prompt_toolkit are imported when the command runs.
"""
