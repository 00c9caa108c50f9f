"""The past, as people ask for it: settings at a time, what changed, who did what, reports."""
