"""The documentation, and the scripts that draw its generated pages from the code."""
