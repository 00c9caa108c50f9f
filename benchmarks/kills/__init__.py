"""The kill campaign: what was acknowledged is there, once, whoever dies when.

::

    clients with their own tally ─► ingest ─► bus ─► feature stage(s) ─► features
                 │                    ✗        ✗           ✗                │
                 └──────────────── every event, every sum, to the micro-unit ┘

``python -m benchmarks.kills`` lives through rounds of real processes under load until enough of
them were killed with ``kill -9``, each round from its seed; ``--seed N --rounds 1`` is one of them
again (its plan; moments are the machine's).

``kill -9`` spares the page cache, so no number of kills can show that an acknowledgement waited for
the disk: that is asserted apart, by ``tests/signals/test_fsync.py``, which watches every fsync of
the log from inside ingest. With Kafka the disk is the broker's business, and the broker of these
rounds has none: it shows the protocol's use, not replication.
"""
