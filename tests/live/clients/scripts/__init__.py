"""Scripts that do what other people's clients do, in processes of their own: their imports take long, and warn.

Each takes the server's URL, asks for a short answer, says in a line of JSON how many tokens that took, and then reads
an endless stream until it is interrupted.

- `litellm_client`
- `langchain_client`
"""
