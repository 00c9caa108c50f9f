"""Proposes what to try next: contextual bandits over setpoints and laws, and their rivals.

``port`` has the words, ``ridge`` and ``features`` are under both bandits, ``masking``,
``stability`` and ``credit`` say what may be chosen at all, ``eligible`` what may be learned from,
``replay`` proves a choice, ``offpolicy`` estimates what other choices would have earned.
Pure: chance is a seed, time an argument.
"""
