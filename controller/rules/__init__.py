"""Declared triggers: CEL conditions, checked when loaded, fired with ``for`` and cooldown."""
