"""One round: a history that must raise no alarm, or one that an insider then lays hands on."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from random import Random
from typing import Literal

import msgspec
from msgspec import Struct

from benchmarks.tampering.attacks import LEAVES_KEPT, WHOLE, Insider, Named
from benchmarks.tampering.databases import Backup, Database
from benchmarks.tampering.living import Life
from controller.audit.desk import AuditDesk, audit_desk
from controller.audit.export import export
from controller.audit.settings import AuditSettings
from controller.audit.verify import Outside, Verification, verify, verify_export
from controller.layout import Layout
from controller.store.sql import open_store
from docs.verify_audit import check
from policies.heads import PublicKeys
from policies.published import decode_keys, encode_keys
from signals.errors import Conflict

Kind = Literal["sqlite", "postgres"]
MIN_WHOLE = 25
"""Transactions after the last seal: an insider finds entries to lay hands on."""
NAMES = re.compile(r"audit (?:entry|entries) (\d+)(?:–(\d+))?:")


class Plan(Struct, frozen=True, kw_only=True):
    """Which round. ``attack`` None: an honest history."""

    seed: int
    database: Kind
    attack: str | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """How it went. ``faults``: false alarms, or what went unnoticed."""

    plan: Plan
    entries: int
    heads: int
    restores: int
    archived: int
    faults: tuple[str, ...]


class Round:
    """A store, its folder, and the place outside."""

    def __init__(self, folder: Path, database: Database, rng: Random) -> None:
        self.layout = Layout(folder / "state")
        self.layout.create()
        self.database = database
        self.rng = rng
        self.outside = folder / "outside"
        self.outside.mkdir(exist_ok=True)
        self.settings = AuditSettings(sink=str(self.outside / "heads.jsonl"))
        self.restores = 0

    @contextmanager
    def running(self) -> Iterator[tuple[Life, AuditDesk]]:
        """The product at work on the database."""
        store = open_store(self.database.where)
        life = Life(store, self.rng)
        try:
            with audit_desk(self.settings, self.layout, store, clock=life.clock) as desk:
                yield life, desk
        finally:
            store.close()

    def heads(self) -> Outside:
        """As the auditor has them: the first public keys, and the sink's lines."""
        keys = self.public_keys()
        lines = (self.outside / "heads.jsonl").read_bytes().splitlines()
        return Outside(lines=lines, keys=msgspec.structs.replace(keys, keys=keys.keys[:1]))

    def public_keys(self) -> PublicKeys:
        """The public keys' file."""
        return decode_keys(self.layout.audit_public.read_bytes())

    def verified(self, *, archives: bool = True) -> Verification:
        """What the auditor finds in the database."""
        folder = self.layout.archives if archives else None
        return verify(self.database.where, outside=self.heads(), archives=folder)


def live(round_: Round, stretches: int) -> Backup:
    """Some stretches of an honest life; the backup that was made on the way."""
    backup: Backup | None = None
    for stretch in range(stretches):
        with round_.running() as (life, desk):
            _stretch(round_, life, desk)
            size = desk.publisher.status().size
        if stretch == 0:
            backup = Backup(round_.database.save(), size)
    assert backup is not None
    return backup


def _stretch(round_: Round, life: Life, desk: AuditDesk) -> None:
    rng = round_.rng
    for _ in range(rng.randrange(2, 5)):
        if rng.random() < 0.4:
            life.act_together(rng.randrange(2, 6))
        else:
            life.act(rng.randrange(3, 15))
        _must(desk)
    if rng.random() < 0.4:
        desk.publisher.rotate(by="ann")
    if rng.random() < 0.4:
        _seal(desk, rng, life.clock())
    life.act(MIN_WHOLE)
    _must(desk)


def _seal(desk: AuditDesk, rng: Random, now_us: int) -> None:
    try:
        if rng.random() < 0.5:
            desk.sealer.seal(by="ann", entries=rng.randrange(1, 40))
        else:
            desk.sealer.seal(by="ann", before_us=now_us - rng.randrange(60_000_000))
    except Conflict:
        return


def _must(desk: AuditDesk) -> None:
    if desk.publisher.publish(now=True) is None:
        raise AssertionError(f"an honest log raised {desk.publisher.status().alarm}")


def restore(round_: Round, backup: Backup) -> list[str]:
    """An honest restore of an older backup: refused at first, accepted once it was said."""
    round_.database.put_back(backup.saved)
    faults = []
    with round_.running() as (life, desk):
        if desk.publisher.publish(now=True) is not None:
            faults.append("a head was signed over a log that had gone back")
        if round_.verified().clean:
            faults.append("a log that had gone back was clean")
        desk.publisher.restored(by="ann", reason="the disk failed")
        round_.restores += 1
        life.act(5)
        _must(desk)
    return faults


def honest(folder: Path, database: Database, plan: Plan) -> Outcome:
    """A random honest history: nothing may be found, by either verifier, in store or export."""
    round_ = Round(folder, database, Random(plan.seed))
    backup = live(round_, round_.rng.choice((2, 2, 3)))
    faults = []
    if round_.rng.random() < 0.4:
        faults += restore(round_, backup)
        live(round_, 1)
    faults += [f"false alarm: {one}" for one in _all_findings(round_)]
    found = round_.verified(archives=False)
    return Outcome(
        plan=plan,
        entries=found.entries,
        heads=found.heads or 0,
        restores=round_.restores,
        archived=found.archived,
        faults=tuple(faults),
    )


def _all_findings(round_: Round) -> Iterator[str]:
    for archives in (True, False):
        yield from round_.verified(archives=archives).findings
        folder = round_.layout.archives if archives else None
        lines = list(export(round_.database.where, archives=folder))
        yield from verify_export(lines, outside=round_.heads()).findings
        yield from second_opinion(round_, lines)


def second_opinion(round_: Round, lines: list[bytes]) -> list[str]:
    """What the verifier of ``docs/`` finds, which shares no code with ours."""
    heads = round_.heads()
    keys = msgspec.json.decode(encode_keys(heads.keys))
    said = [line.decode() if isinstance(line, bytes) else line for line in heads.lines]
    with redirect_stdout(io.StringIO()):
        return check([line.decode() for line in lines], said, keys)


def tampered(folder: Path, database: Database, plan: Plan) -> Outcome:
    """An honest history, then an attack: found, named, and no head is signed over it."""
    assert plan.attack is not None
    round_ = Round(folder, database, Random(plan.seed))
    backup = live(round_, 2)
    before = round_.verified()
    if not before.clean:
        raise AssertionError(f"before the attack: {before.findings}")
    return Outcome(
        plan=plan,
        entries=before.entries,
        heads=before.heads or 0,
        restores=0,
        archived=before.archived,
        faults=tuple(attacked(round_, backup, plan.attack)),
    )


def attacked(round_: Round, backup: Backup, attack: str) -> Iterator[str]:
    """Let an insider at it; what went unnoticed."""
    insider = Insider(round_.database, round_.rng, backup)
    if attack in WHOLE:
        named = insider.attack(attack)
    else:
        with round_.database.disarmed():
            named = insider.attack(attack)
    yield from _unnoticed(attack, named, round_.verified())
    if attack not in LEAVES_KEPT:
        yield from _signed_anyway(round_)
        lines = list(export(round_.database.where, archives=round_.layout.archives))
        if not second_opinion(round_, lines):
            yield "the second verifier took it for honest"


def _signed_anyway(round_: Round) -> Iterator[str]:
    with round_.running() as (_, desk):
        if desk.publisher.publish(now=True) is not None:
            yield "a head was signed over a forged log"
        elif desk.publisher.status().alarm is None:
            yield "no alarm was raised"


def _unnoticed(attack: str, named: Named, found: Verification) -> Iterator[str]:
    if found.clean:
        yield f"{attack} went unnoticed"
    elif any("trigger" in finding for finding in found.findings):
        yield f"the triggers were put back, and named: {found.findings}"
    elif not any(names(finding, named) for finding in found.findings):
        yield f"{attack} touched {named}, which is not named: {found.findings}"


def names(finding: str, named: Named) -> bool:
    """Whether a finding names what was touched: the row, or a range that holds an entry of it."""
    if isinstance(named, str):
        return finding.startswith(named)
    said = NAMES.match(finding)
    if said is None:
        return False
    first = int(said[1])
    last = int(said[2] or first)
    return first <= named[1] and named[0] <= last
