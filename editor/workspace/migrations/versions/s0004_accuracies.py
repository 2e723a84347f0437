"""The last accuracy of each plan of a document."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "accuracies",
        sa.Column("document", sa.String(32), primary_key=True),
        sa.Column("plan", sa.String(64), primary_key=True),
        sa.Column("when", sa.String, nullable=False),
        sa.Column("figures", sa.LargeBinary, nullable=False),
    )
