"""The audit, read back: verified against the rows it speaks of, and exported."""
