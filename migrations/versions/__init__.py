"""One file a revision, oldest first; a published one never changes."""
