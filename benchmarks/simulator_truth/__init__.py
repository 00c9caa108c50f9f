"""How near the simulated engine comes to real ones: predicted against measured latencies."""
