"""The signals API: POST /v1/signals onto the bus."""
