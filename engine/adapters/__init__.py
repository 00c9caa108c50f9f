"""How others reach an engine. Free of torch."""
