"""Honest histories that must raise no alarm, and insiders who must always be found out."""
