"""Revisions form a tree, and every version of a document says who made it."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Adds the columns and the table of changes; a history without branches is a tree with one."""
    op.add_column("documents", sa.Column("tip", sa.Integer, nullable=False, server_default="0"))
    op.add_column("revisions", sa.Column("parent", sa.Integer, nullable=True))
    op.add_column("revisions", sa.Column("author", sa.String, nullable=False, server_default=""))
    op.create_table(
        "changes",
        sa.Column("document", sa.String(32), sa.ForeignKey("documents.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("page", sa.String(64), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("server", sa.String, nullable=False),
        sa.Column("what", sa.String, nullable=False),
    )
    op.execute("UPDATE revisions SET parent = number - 1 WHERE number > 0")
    op.execute(
        "UPDATE documents SET tip = (SELECT MAX(number) FROM revisions WHERE revisions.document = documents.id)"
    )
