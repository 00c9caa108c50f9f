"""The benchmark of control on the real engine, without the engine: its load and its arithmetic."""
