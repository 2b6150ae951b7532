"""Clusters of real processes: a front door and two workers on loopback.  Skipped where Dynamo is not installed."""
