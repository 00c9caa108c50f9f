"""Programs to read first, and the journey that `make run` tells."""
