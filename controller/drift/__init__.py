"""Drift: whether the engine still answers its context as it did, told from residuals by block."""
