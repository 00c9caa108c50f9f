"""An engine of arithmetic: discrete-event, at the level of steps, seeded, free of torch.

It keeps the settings contract of every engine (``engine/settings_book.py``), laws, expiries and
holds included, and tells what it did in the records of every engine, so that what decides can be
tried against days of load in minutes. Time inside is simulated; nothing here reads a clock::

    fleet = Fleet(
        replicas={"r0": ReplicaSpec(step_times=StepTimes(...)), "r1": ...},
        arrivals=arrivals,            # iterator of Offered, by arrival; may never end
        slos={"live": Slo(ttft_ms=1000)},
        router="least_loaded",        # or "random"
        seed=1,
        faults=(),                    # faults.py
    )
    fleet.run(60_000_000)             # µs: every step that begins before is taken
    fleet.replica("r0").view()        # RuntimeConfig, as GET answers it
    fleet.replica("r0").patch(patch)  # at the step boundary where it stands, as PATCH answers it
    fleet.requests(0, 60_000_000)     # RequestRow of what arrived in (from, to], as known now
    fleet.seconds(0, 60_000_000)      # SecondRow that ended in (from, to]
    fleet.records(0, 60_000_000)      # the same as Second: running and KV too
    fleet.incomplete(0, 60_000_000)   # whether records of that time were lost
    fleet.engines()                   # EngineSeen: incarnation, gaps, clock
    fleet.forget(30_000_000)          # drop what was told before: for long lives

``Fleet`` is in ``fleet.py``, ``ReplicaSpec`` in ``spec.py``, ``StepTimes`` in ``step_times.py``,
``Offered`` in ``offered.py``.
"""
