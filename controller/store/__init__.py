"""The controller's memory. ``port`` is what others use; the rest keeps it in SQLite."""
