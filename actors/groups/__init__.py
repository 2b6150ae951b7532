"""Requests that say something of one another: groups, races, successors.

For the engine and its requests; rests on `actors.core`.  All of it happens on the event loop, in the tasks of requests
and of whoever ends a group, each time in one go, without an await.

    request_groups  RequestGroups: who is in which group, and who takes whose place
                    LiveGroup: a group with live requests; is_within: names of groups
    member          Member: one request as related requests see it, from its coming to its end
                    make_tickets: of a request, with the places that they take over or wait for
"""
