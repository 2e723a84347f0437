"""Documents, revisions, layouts and runs, as versions before 0.3 made them without Alembic."""

revision, down_revision = "0001", None


def upgrade() -> None:
    """Nothing: workspaces of that time are stamped with this step."""
