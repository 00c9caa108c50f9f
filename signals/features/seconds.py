"""Seconds as the controller reads them, made from an engine's records."""

from __future__ import annotations

from signals.events import Second
from signals.features.model import SecondRow


def row_of_second(record: Second) -> SecondRow:
    """The row of one ``second`` record."""
    stamp, trial = record.stamp, record.stamp.trial
    intents = record.intents.items()
    return SecondRow(
        target=stamp.target,
        replica=stamp.replica,
        incarnation=stamp.incarnation,
        from_us=record.from_us,
        to_us=record.to_us,
        digest=stamp.digest,
        trial=trial.id if trial else "",
        block=trial.block if trial else -1,
        arm=trial.arm if trial else None,
        output_tokens={intent: load.output_tokens for intent, load in intents},
        arrivals={intent: load.arrivals for intent, load in intents},
        offered_tokens={intent: load.offered_tokens for intent, load in intents},
        waiting={intent: load.waiting for intent, load in intents},
        steps=record.steps,
        knobs=record.knobs,
    )
