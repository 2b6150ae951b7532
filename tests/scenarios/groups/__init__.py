"""Groups, races, successors, on the whole engine."""
