"""The kill campaign: ``python -m benchmarks.kills``."""
