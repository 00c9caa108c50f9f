"""A command starts quickly: what only one of them needs is imported when it is needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("alembic", "fastapi", "kafka", "numpy", "psycopg", "scipy", "sqlalchemy", "torch")
ASK = f"import controller.cli.main, sys; print(*({set(HEAVY)!r} & set(sys.modules)))"


def test_no_command_waits_for_the_packages_of_another() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
