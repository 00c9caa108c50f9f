"""Floor 2. The semantic sensor's room. Nothing scores answers yet: see the README's limits."""
