"""`cede doctor --self-test`: all checks in their order, and the one that takes a real socket.

For the doctor command.  It rests on `actors.selftest` and `runtime.selftest`.

    checks   self_test, Sizes; hang_up_in: a socket that is closed while a step runs
"""
