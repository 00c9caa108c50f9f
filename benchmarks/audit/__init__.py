"""What the audit and its history cost and give: ``python -m benchmarks.audit``."""
