"""The measuring core of `cede bench`: an HTTP client that times every token, the servers it is pointed at, and turns.

`client` and `trace` send requests and time what comes; `dialect` says how requests are put to a server; `targets`
starts and stops servers; `turn` is what a scenario is given, and `runner` runs rounds of turns; `figures` is what
comes of them.  Scenarios, attacks and reports rest on this package, and this package on none of them.
"""
