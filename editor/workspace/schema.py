"""The tables of a workspace. Every change here needs a step in ``migrations/versions``."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = "0003"
"""The newest step in ``migrations/versions``."""

metadata = sa.MetaData()

documents = sa.Table(
    "documents", metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("define", sa.JSON, nullable=False),
    sa.Column("cursor", sa.Integer, nullable=False),
    sa.Column("updated", sa.String, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("tip", sa.Integer, nullable=False, server_default="0"))
"""``cursor`` is the current revision, ``tip`` the last one of its branch: redo walks towards it."""

revisions = sa.Table(
    "revisions", metadata,
    sa.Column("document", sa.String(32), sa.ForeignKey("documents.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("label", sa.String, nullable=False),
    sa.Column("decisions", sa.LargeBinary, nullable=False),
    sa.Column("parent", sa.Integer, nullable=True),
    sa.Column("author", sa.String, nullable=False, server_default=""))
"""Revisions form a tree and are never changed or deleted: a change after undo begins a branch."""

changes = sa.Table(
    "changes", metadata,
    sa.Column("document", sa.String(32), sa.ForeignKey("documents.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("page", sa.String(64), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("server", sa.String, nullable=False),
    sa.Column("what", sa.String, nullable=False))
"""Who made each of the last versions of a document, and what it was."""

layouts = sa.Table(
    "layouts", metadata, sa.Column("document", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(80), primary_key=True), sa.Column("decisions", sa.LargeBinary, nullable=False))

runs = sa.Table(
    "runs", metadata, sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("document", sa.String(32), nullable=False, index=True), sa.Column("when", sa.String, nullable=False),
    sa.Column("figures", sa.JSON, nullable=False))

steps_applied = sa.Table("alembic_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True))
"""Alembic's own table: the newest step that was applied. Created here because loading Alembic takes a start 0.3 s."""
