"""Alembic revisions of ``store.db``. ``controller.store.migrate`` runs them."""
