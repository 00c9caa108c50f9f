"""An engine of arithmetic: discrete-event, at the level of steps, seeded, free of torch.

It keeps the settings contract of every engine (``engine/settings_book.py``), laws and expiries
included, so that what decides can be tried against years of load in minutes.
"""
