"""The campaign of races: 50 operators on the same policies, ``serve`` killed in between.

::

    50 operators ──► serve ──► store (SQLite or PostgreSQL), latch, engine
         │             ✗            │
         └─ what each was told ═════╧═ the audit, policy by policy

``python -m benchmarks.races`` lives through rounds until ``serve`` was killed with ``kill -9``
often enough, each round from its seed; ``--seed N --rounds 1`` is one of them again (its plan;
moments are the machine's). Operators propose, approve, reject, revert, pause and resume, hold,
kill, release and roll back, pin, force, freeze and take that back, declare changes and baselines,
all on one target, in every role; every second act carries an Idempotency-Key and is tried again
until it is answered. What must be true at the end:

======================  ===========================================================================
an act that was         is in the audit
======================  ===========================================================================
acknowledged            exactly once, as that person's, at the very revision that he was shown
refused                 not at all
never delivered         not at all
unanswered              at most once
======================  ===========================================================================

and nothing else is there in an operator's name; each policy came to one end; the audit verifies;
nobody ever saw a revision go back; the loop still starts a trial and still takes it back; latch,
store and engine say the same; the store can be opened and written, so no lock is left.
"""
