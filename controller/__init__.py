"""Floor 3. The loop: windows in, judged policies out. Also its REST, store, wiring and CLI."""
