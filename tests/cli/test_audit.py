"""``trimtab audit`` against a control plane: head, proofs, sealing, rotation, restore."""

from __future__ import annotations

import shutil

from tests.cli.conftest import Served


def test_a_head_is_shown_with_where_it_went(served: Served) -> None:
    served.plane.services.audit.publisher.publish()
    shown = served.as_("auditor")("audit", "head")
    assert shown.code == 0
    assert "published: " in shown.out
    assert "WARNING: the audit's heads go to" in shown.out
    assert served.as_("auditor")("audit", "head", "--json").json["alarm"] is None


def test_a_proof_is_fetched_and_checked_here(served: Served) -> None:
    ida = served.as_("auditor")
    assert "is among the first" in ida("audit", "prove", "1").out
    assert ida("audit", "prove", "1", "--size", "5").out.startswith(
        "entry 1 is among the first 5 entries: holds"
    )
    assert ": holds" in ida("audit", "prove", "--first", "3").out
    assert ida("audit", "prove", "1", "--json").json["holds"] is True
    refused = ida("audit", "prove")
    assert (refused.code, "name an entry" in refused.err) == (2, True)
    assert ida("audit", "prove", "100000").code == 2


def test_old_entries_are_sealed_and_a_key_is_rotated(served: Served) -> None:
    ann = served.as_("admin")
    sealed = ann("audit", "seal", "--entries", "4")
    assert sealed.out.startswith("entries 0–3 are in audit-000000000000-000000000003.jsonl.zst")
    assert ann("audit", "seal", "--before", "1970-01-02").code == 2
    assert "handed over to" in ann("audit", "rotate-key").out
    assert ann("audit", "verify").out.endswith("clean\n")
    lines = ann("audit", "export").out.splitlines()
    assert '"entry":"{' in lines[0]
    db = str(served.plane.folder / "store.db")
    assert '"entry":null' in ann("audit", "export", "--db", db).out.splitlines()[0]
    folder = str(served.plane.services.audit.archives.folder)
    assert ann("audit", "export", "--db", db, "--archives", folder).out.splitlines() == lines
    assert "4 entries are in archives" in ann("audit", "verify", "--db", db).out
    shutil.rmtree(folder)


def test_a_reason_with_a_line_separator_in_it_is_exported_as_it_was_hashed(served: Served) -> None:
    reason = "first line\u2028second\u0085third"
    assert served.as_("operator")("hold", "chat", "-m", reason).code == 0
    export = served.plane.folder / "export.jsonl"
    export.write_text(served.as_("auditor")("audit", "export").out, "utf-8")
    assert reason in export.read_text("utf-8")
    found = served.as_("auditor")("audit", "verify", "--export", str(export))
    assert found.out.endswith("clean\n")


def test_a_restore_where_nothing_was_lost_is_refused(served: Served) -> None:
    refused = served.as_("admin")("audit", "restored", "--reason", "by mistake")
    assert refused.code == 2
    assert "nothing is given up" in refused.err
    assert served.as_("operator")("audit", "restored", "-m", "x").code == 2
