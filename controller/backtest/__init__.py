"""The production loop against a simulated fleet: days of decisions in minutes, from one seed.

::

    simulated fleet ──► SimulatedFeatures ──► Looker ──► TargetLoop ──► Replica ──► simulated fleet
      its records          windows, rows        Seen       step, store     PATCH      at a boundary

Only the plant and the feature stage are other than in production: the loop, the judge, the trial,
the guardrails, the reconciler, the store with its audit and the operator's acts are the very
objects that ``serve`` runs. Time is the fleet's; chance comes from the seed.
"""
