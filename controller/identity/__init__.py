"""Who is calling: OIDC bearer tokens beside the keys, and addresses that guess too often."""
