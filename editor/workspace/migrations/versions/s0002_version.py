"""Documents have a version, so that two writers cannot overwrite each other."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    """Adds the column."""
    op.add_column("documents", sa.Column("version", sa.Integer, nullable=False, server_default="0"))
