"""Rounds of real processes, real faults, and one count of what became of it."""
