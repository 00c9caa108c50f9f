"""Signed webhooks: what the audit records, told to whoever subscribed, at least once."""
