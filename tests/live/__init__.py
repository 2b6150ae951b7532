"""Real servers in processes of their own, and clients that know their own sockets.

`server` starts one, `fork_server` does so in a fraction of a second, `http_client` and `h2_client` talk to it;
`hostile` sends it bodies that are wrong in every way.  Tests are in the folders below, by what they are about.
"""
