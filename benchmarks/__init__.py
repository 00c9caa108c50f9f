"""What the README claims, measured: each program prints one JSON line last."""
