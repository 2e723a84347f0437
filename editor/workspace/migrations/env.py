"""Alembic runs the steps in ``versions`` on the connection that ``database`` gives it."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
