"""Clusters of up to thousands of workers in which nothing is computed: who tells whom, how often, and how many bytes.

    bulk   a network for millions of messages
    model  processes that do nothing but send, and what is counted of it

`python -m tests.sim.cluster.growth` prints the table of docs/understand/performance.md.  Discovery and the network are
those of `tests.sim.cluster`; the sizes of messages are those that were counted between real processes.
"""
