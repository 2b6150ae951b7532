"""What other people's clients do, in processes of their own: their imports take long, and warn.

Each takes the server's URL; it makes a call that has to call a tool, says in a line of JSON which it got, and then reads
an endless stream until it is interrupted.

- `litellm_client`
- `langchain_client`
"""
