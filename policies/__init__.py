"""Floor 1. What may be changed, by which record, under which rules. Pure: no I/O, no clock."""
