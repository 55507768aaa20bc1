"""What the checks stand on: the host's own loader, manager and memory tool.

Knows the host's public contract and no provider.
"""
