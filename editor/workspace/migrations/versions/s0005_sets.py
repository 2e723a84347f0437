"""Sets of models on one device table."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0005", "0004"


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "sets",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("origin", sa.String(64), nullable=False, index=True),
        sa.Column("devices", sa.JSON, nullable=False),
        sa.Column("updated", sa.String, nullable=False),
    )
    op.create_table(
        "set_models",
        sa.Column("set", sa.String(32), sa.ForeignKey("sets.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("document", sa.String(32), nullable=False, index=True),
        sa.Column("runs", sa.Float, nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
    )
