"""Trials, decisions, and the states of learners that decisions name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from controller.store.port import Decision, Drawn
from controller.store.rows import Rows, bounded, decoded, encoded
from controller.store.tables import decisions, learners, trials
from controller.trials import Trial
from signals.errors import Conflict, NotFound


class TrialRows(Rows):
    """The ``trials``, ``decisions`` and ``learners`` tables."""

    def trial(self, trial_id: str) -> Trial:
        """Raises ``NotFound``."""
        query = select(trials.c.body).where(trials.c.id == trial_id)
        body = self._connection.execute(query).scalar_one_or_none()
        if body is None:
            raise NotFound(f"no trial {trial_id}", field="trial_id", value=trial_id)
        return decoded(body, Trial)

    def trials(
        self, *, target: str | None = None, running: bool | None = None, limit: int = 50
    ) -> list[Trial]:
        """Newest first. ``running`` False: done ones; None: all."""
        query = select(trials.c.body)
        if target is not None:
            query = query.where(trials.c.target == target)
        if running is not None:
            states = ("running", "paused") if running else ("done",)
            query = query.where(trials.c.state.in_(states))
        query = query.order_by(trials.c.began_us.desc(), trials.c.id.desc()).limit(bounded(limit))
        return [decoded(body, Trial) for body in self._connection.execute(query).scalars()]

    def save_trial(self, trial: Trial) -> Trial:
        """``rev`` 0 inserts, any other compares and sets. Raises ``Conflict`` for a lost race."""
        connection = self._for_writing()
        saved = msgspec.structs.replace(trial, rev=trial.rev + 1)
        row = _row(saved)
        try:
            if trial.rev == 0:
                connection.execute(insert(trials).values(row))
                return saved
        except IntegrityError as error:
            raise _lost(trial) from error
        same = (trials.c.id == trial.plan.id, trials.c.rev == trial.rev)
        if connection.execute(update(trials).where(*same).values(row)).rowcount != 1:
            raise _lost(trial)
        return saved

    def add_decision(self, decision: Decision) -> None:
        """Append. Raises ``Conflict`` where its id is taken."""
        row = {
            "id": decision.id,
            "target": decision.target,
            "at_us": decision.at_us,
            "policy_id": decision.policy_id,
            "body": encoded(decision),
        }
        try:
            self._for_writing().execute(insert(decisions).values(row))
        except IntegrityError as error:
            raise Conflict(
                f"decision {decision.id} exists already", field="id", value=decision.id
            ) from error

    def prune_decisions(self, before_us: int, *, limit: int = 1000) -> int:
        """How many were forgotten."""
        oldest = select(decisions.c.seq).order_by(decisions.c.seq).limit(bounded(limit))
        old = (decisions.c.seq.in_(oldest), decisions.c.at_us < before_us)
        return self._for_writing().execute(delete(decisions).where(*old)).rowcount

    def keep_learner(self, target: str, digest: str, body: str, *, at_us: int) -> None:
        """Insert, or move the time of use on."""
        row = {"target": target, "digest": digest, "at_us": at_us, "body": body}
        self._replace(learners, row)

    def learner(self, target: str, digest: str) -> str | None:
        """None when it was never kept, or is forgotten."""
        same = (learners.c.target == target, learners.c.digest == digest)
        query = select(learners.c.body).where(*same)
        return self._connection.execute(query).scalar_one_or_none()

    def prune_learners(self, before_us: int, *, limit: int = 1000) -> int:
        """How many were forgotten."""
        key = (learners.c.target, learners.c.digest)
        old = select(*key).where(learners.c.at_us < before_us)
        oldest = old.order_by(learners.c.at_us).limit(bounded(limit))
        return (
            self._for_writing().execute(delete(learners).where(tuple_(*key).in_(oldest))).rowcount
        )

    def decisions(
        self,
        *,
        target: str | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        limit: int = 100,
    ) -> list[Decision]:
        """Newest first."""
        query = select(decisions.c.body)
        if target is not None:
            query = query.where(decisions.c.target == target)
        if from_us is not None:
            query = query.where(decisions.c.at_us >= from_us)
        if to_us is not None:
            query = query.where(decisions.c.at_us < to_us)
        query = query.order_by(decisions.c.seq.desc()).limit(bounded(limit))
        return [decoded(body, Decision) for body in self._connection.execute(query).scalars()]

    def drawn(
        self,
        *,
        target: str | None = None,
        from_us: int | None = None,
        ids: Sequence[str] = (),
        limit: int = 100,
    ) -> list[Drawn]:
        """Newest first. What became of a decision is not even decoded."""
        query = select(decisions.c.body)
        if target is not None:
            query = query.where(decisions.c.target == target)
        if from_us is not None:
            query = query.where(decisions.c.at_us >= from_us)
        if ids:
            query = query.where(decisions.c.id.in_(ids))
        query = query.order_by(decisions.c.seq.desc()).limit(bounded(limit))
        return [decoded(body, Drawn) for body in self._connection.execute(query).scalars()]


def _row(trial: Trial) -> dict[str, Any]:
    return {
        "id": trial.plan.id,
        "policy_id": trial.plan.policy_id,
        "target": trial.plan.target,
        "state": trial.state,
        "rev": trial.rev,
        "began_us": trial.began_us,
        "body": encoded(trial),
    }


def _lost(trial: Trial) -> Conflict:
    return Conflict(
        f"trial {trial.plan.id} has moved on from rev {trial.rev}", field="rev", value=trial.rev
    )
