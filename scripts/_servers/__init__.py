"""Servers of one's own, for tests and rehearsals; none outlives whoever started it."""
