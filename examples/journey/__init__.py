"""The journey: the whole loop on sample traffic, told from real figures, then derived again.

It drives the product from outside only: the command line and HTTP. Nothing in the product knows
that this is a sample.
"""
