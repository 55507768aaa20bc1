"""Runs the checks of conformance/ against providers, each in what it needs."""
