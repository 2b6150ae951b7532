"""Proofs of what is promised at the front door, tried many times; counted by clients' answers and workers' receipts.

    python -m tests.live.cluster closes --closes 1000
    python -m tests.live.cluster storm --seconds 10 --rate 100
    python -m tests.live.cluster kills --kills 100
    python -m tests.live.cluster roll, freeze, door, discovery
    python -m tests.live.cluster retries --cases 200
    python -m tests.live.cluster hangups --minutes 30
    python -m tests.live.cluster ends

Each starts a cluster of its own, prints a report, and fails where a promise was broken.  Times are shown beside what is
counted and decide nothing: they are the machine's, and of whatever else runs on it.

    asking    one request at the front door, and all that came of it
    load      clients that ask all the time, and compare what they get with what is answered when nothing happens
    evidence  what the workers show: receipts, the log, what is leased
    closes    clients that hang up, at any moment, and in a storm
    kills     workers that are killed
    outages   workers that are rolled or frozen, a front door that is killed, discovery that is away
    retries   who hung up and asks again, by router
    hangups   clients that hang up for long, on several clusters at once
    ends      SIGTERM to each part, in each state that holds one up
"""
