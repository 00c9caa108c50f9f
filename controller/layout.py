"""Where things lie inside the state directory. One writer per file (invariant 2)."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Layout(Struct, frozen=True):
    """Paths below ``root``. Only names; ``create`` and ``features_files`` touch the disk."""

    root: Path

    @property
    def bus(self) -> Path:
        """The folder of the feedback bus; written by ingest."""
        return self.root / "bus"

    @property
    def features_db(self) -> Path:
        """Joins and windows of the first bus partition, which is all of them without Kafka."""
        return self.features(0)

    def features(self, partition: int) -> Path:
        """Joins and windows of one bus partition; written by the feature stage that owns it."""
        return self.root / (f"features-{partition}.db" if partition else "features.db")

    def features_files(self) -> dict[int, Path]:
        """The features files that there are, by partition."""
        found: dict[int, Path] = {}
        for path in self.root.glob("features*.db"):
            number = path.stem.removeprefix("features").removeprefix("-") or "0"
            if number.isdigit() and self.features(int(number)) == path:
                found[int(number)] = path
        return dict(sorted(found.items()))

    @property
    def store_db(self) -> Path:
        """Policies, trials, audit, keys; written by serve."""
        return self.root / "store.db"

    @property
    def store_url(self) -> str:
        """The store as a database URL."""
        return f"sqlite:///{self.store_db}"

    @property
    def supervisor(self) -> Path:
        """What ``trimtab up`` locks: one of them in a state directory."""
        return self.root / "up"

    @property
    def latch(self) -> Path:
        """The kill and hold latch; read before every PATCH."""
        return self.root / "latch.json"

    @property
    def keys(self) -> Path:
        """Secrets, one file each, readable by their owner only."""
        return self.root / "keys"

    def key(self, name: str) -> Path:
        """One secret's file, e.g. ``admin``, ``control``, ``engine``."""
        return self.keys / f"{name}.key"

    @property
    def audit_public(self) -> Path:
        """The public keys by which the audit's heads are checked; for auditors to keep."""
        return self.keys / "audit.public.json"

    @property
    def audit_heads(self) -> Path:
        """Where signed heads go as long as no place outside is configured."""
        return self.root / "audit-heads.jsonl"

    @property
    def audit_memory(self) -> Path:
        """The head that was published last; written by serve."""
        return self.root / "audit-last-head.json"

    @property
    def audit_pending(self) -> Path:
        """A signed statement on its way outside; written by serve."""
        return self.root / "audit-pending.json"

    @property
    def archives(self) -> Path:
        """Audit entries whose bytes have left the store."""
        return self.root / "archives"

    @property
    def logs(self) -> Path:
        """What child processes print."""
        return self.root / "logs"

    @property
    def engine_run(self) -> Path:
        """The engine's settings as handed to its process."""
        return self.root / "engine.json"

    @property
    def trace_log(self) -> Path:
        """The engine's spans as JSON lines."""
        return self.root / "traces.jsonl"

    def create(self) -> None:
        """Make the folders, for their owner only. Idempotent."""
        for folder in (self.root, self.keys, self.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
