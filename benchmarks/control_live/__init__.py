"""Batch beside interactive on the embedded engine, with real weights: what a law is worth there.

==================  ================================================================================
``static small``    a low cap for ever: chats are safe, and jobs are slow also while nobody chats
``static large``    the engine's capacity for ever: jobs are fast, and chats miss their limits
``rule``            the emergency rule alone, in the production loop: capacity, and the low cap for
                    a while once chats have missed their limits for long enough
``law``             "the low cap while chats arrive, else capacity". IMPORTED AS KEPT: it is put in
                    force as if a trial had kept it; nothing here judges it (``make run`` does)
==================  ================================================================================

One engine, one flood of jobs, and chats in phases of 80 s. Every arm of a cycle meets the same
chats; arms take turns, in one order and then in the reverse (A-B-A), and each is measured over
whole phases after a washout::

    ├ washout ┤ 40 s without chats │ 80 s with chats │ 40 s without chats │

The figures of an arm are those that the product's judge would read in a block of it.
"""
