"""The tables of the store: key columns to find and guard a record by, and its body as JSON.

``migrations/`` builds them; a test holds the two equal. The append-only triggers of the audit and
of metric definitions are in the migrations alone, because metadata has no words for them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ID = String(64).with_variant(String(64, collation="C"), "postgresql")
NAME = String(256).with_variant(String(256, collation="C"), "postgresql")
"""Compared by their bytes, as SQLite does, whatever the locale of a PostgreSQL database."""
COUNTER = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit key: SQLite makes a column the row's own number only if it is called INTEGER."""


def _policy_key(*, nullable: bool) -> Column[Any]:
    """Checked at commit, so the order of writes within one transaction does not matter."""
    key = ForeignKey("policies.id", deferrable=True, initially="DEFERRED")
    return Column("policy_id", ID, key, nullable=nullable)


policies = Table(
    "policies",
    metadata,
    Column("id", ID, primary_key=True),
    Column("target", NAME, nullable=False),
    Column("knob", NAME, nullable=False),
    Column("state", String(32), nullable=False),
    Column("rev", Integer, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("scope", NAME, nullable=False, server_default="target"),
    Column("origin", String(16), nullable=False, server_default="unknown"),
    Column("proposed_by", NAME, nullable=False, server_default="unknown"),
    Column("verdict", String(16), nullable=True),
)
Index(None, policies.c.target, policies.c.state, policies.c.id)
Index(None, policies.c.target, policies.c.id)
Index(None, policies.c.origin, policies.c.id)
Index(None, policies.c.proposed_by, policies.c.id)
Index(None, policies.c.verdict, policies.c.id)
Index(None, policies.c.knob, policies.c.id)
Index(None, policies.c.scope, policies.c.id)

trials = Table(
    "trials",
    metadata,
    Column("id", ID, primary_key=True),
    _policy_key(nullable=False),
    Column("target", NAME, nullable=False),
    Column("state", String(32), nullable=False),
    Column("rev", Integer, nullable=False),
    Column("began_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
Index(None, trials.c.target, trials.c.state, trials.c.began_us)
Index(None, trials.c.target, trials.c.began_us, trials.c.id)
Index(None, trials.c.state, trials.c.began_us, trials.c.id)
Index(None, trials.c.began_us, trials.c.id)

decisions = Table(
    "decisions",
    metadata,
    Column("seq", COUNTER, primary_key=True, autoincrement=True),
    Column("id", ID, nullable=False, unique=True),
    Column("target", NAME, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    _policy_key(nullable=True),
    Column("body", Text, nullable=False),
)
Index(None, decisions.c.target, decisions.c.seq)

learners = Table(
    "learners",
    metadata,
    Column("target", NAME, primary_key=True),
    Column("digest", NAME, primary_key=True),
    Column("at_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
Index(None, learners.c.at_us)

controls = Table(
    "controls",
    metadata,
    Column("target", NAME, primary_key=True),
    Column("body", Text, nullable=False),
)

modes = Table(
    "modes",
    metadata,
    Column("target", NAME, primary_key=True),
    Column("knob", NAME, primary_key=True),
    Column("mode", String(16), nullable=False),
)

foreign_changes = Table(
    "foreign_changes",
    metadata,
    Column("target", NAME, primary_key=True),
    Column("knob", NAME, primary_key=True),
    Column("body", Text, nullable=False),
)

notes = Table(
    "notes",
    metadata,
    Column("key", NAME, primary_key=True),
    Column("value", Text, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", ID, primary_key=True),
    Column("token_sha256", LargeBinary(32), nullable=False, unique=True),
    Column("body", Text, nullable=False),
)

metric_definitions = Table(
    "metric_definitions",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("managed_by", String(16), nullable=False),
    Column("owner", NAME, nullable=False),
    Column("from_us", BigInteger, nullable=False),
    Column("retired_us", BigInteger, nullable=True),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("leaf_index", COUNTER, primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("actor", NAME, nullable=False),
    Column("action", NAME, nullable=False),
    Column("subject", NAME, nullable=False),
    Column("target", NAME, nullable=False),
    Column("stored", LargeBinary, nullable=True),
    Column("leaf_hash", LargeBinary(32), nullable=False),
)
Index(None, audit_entries.c.subject, audit_entries.c.leaf_index)
Index(None, audit_entries.c.target, audit_entries.c.leaf_index)
Index(None, audit_entries.c.actor, audit_entries.c.leaf_index)
Index(None, audit_entries.c.action, audit_entries.c.leaf_index)
Index(None, audit_entries.c.at_us, audit_entries.c.leaf_index)

audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single"),
)

audit_archives = Table(
    "audit_archives",
    metadata,
    Column("first_index", BigInteger, primary_key=True, autoincrement=False),
    Column("last_index", BigInteger, nullable=False),
    Column("sha256", LargeBinary(32), nullable=False),
    Column("body", Text, nullable=False),
)

audit_tree_heads = Table(
    "audit_tree_heads",
    metadata,
    Column("seq", COUNTER, primary_key=True, autoincrement=True),
    Column("size", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

overrides = Table(
    "overrides",
    metadata,
    Column("id", ID, primary_key=True),
    Column("target", NAME, nullable=False),
    Column("state", String(16), nullable=False),
    Column("rev", Integer, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
Index(None, overrides.c.target, overrides.c.state, overrides.c.id)
Index(None, overrides.c.target, overrides.c.id)
Index(None, overrides.c.state, overrides.c.id)

declared_changes = Table(
    "declared_changes",
    metadata,
    Column("id", ID, primary_key=True),
    Column("target", NAME, nullable=False),
    Column("from_us", BigInteger, nullable=False),
    Column("until_us", BigInteger, nullable=True),
    Column("body", Text, nullable=False),
)
Index(None, declared_changes.c.target, declared_changes.c.id)
Index(None, declared_changes.c.target, declared_changes.c.until_us)

baselines = Table(
    "baselines",
    metadata,
    Column("target", NAME, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("from_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

segments = Table(
    "segments",
    metadata,
    Column("seq", COUNTER, primary_key=True, autoincrement=True),
    Column("target", NAME, nullable=False),
    Column("replica", NAME, nullable=False),
    Column("from_us", BigInteger, nullable=False),
    Column("until_us", BigInteger, nullable=True),
    Column("incarnation", NAME, nullable=False),
    Column("version", Integer, nullable=False),
    Column("entry", BigInteger, nullable=True),
    Column("body", Text, nullable=False),
)
Index(None, segments.c.target, segments.c.replica, segments.c.from_us)
Index(None, segments.c.incarnation, segments.c.version)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", ID, primary_key=True),
    Column("hook", NAME, nullable=False),
    Column("entry", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("due_us", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("body", Text, nullable=False),
)
Index(None, deliveries.c.state, deliveries.c.due_us)
Index(None, deliveries.c.entry)
Index(None, deliveries.c.hook, deliveries.c.entry)
Index(None, deliveries.c.hook, deliveries.c.state, deliveries.c.entry)

idempotent_answers = Table(
    "idempotent_answers",
    metadata,
    Column("principal", NAME, primary_key=True),
    Column("key", NAME, primary_key=True),
    Column("request_sha256", LargeBinary(32), nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("status", Integer, nullable=True),
    Column("body", LargeBinary, nullable=True),
)
Index(None, idempotent_answers.c.at_us)
