"""A trial's life: planned, begun, its blocks on the clock, judged."""
