"""Alembic's entry: runs the revisions on the connection it was given, inside its transaction."""

from __future__ import annotations

from alembic import context

from controller.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
