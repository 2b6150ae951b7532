"""A server that fails as planned: `cede serve --chaos plan.toml`.

For the serve command, which imports it only where there is a plan.  It rests on `web.process.hooks`, the one way into a
server, and on `actors.testing`.

    chaos            plan_for, load_plan: a plan from a TOML file; ChaosError
    planned_faults   PlannedFaults: the server's hooks
"""
