"""Fixtures of `hermes-pgvector import`, written by the very programs it reads."""
