"""Client that the commands for people share: of a running server, or of one in this process.

    answer        what an answer's chunks add up to; its cost, and a receipt, in words; pure
    connection    `Connection`: chats, receipts and state over HTTP
    interruption  a signal cancels a scope
    terminal      writing and reading on a terminal that is left as it was found
    target        which server: the options that say it, and opening it
    run           `cede run`

The libraries of this package (httpx) are imported when such a command runs: neither `cede --help` nor `cede serve`
loads them.
"""
