"""The feedback bus: its ports, the SQLite log and the in-memory log."""
