"""What an import did and what it could not do: nothing is dropped without a line here."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class FileProblem(BaseModel):
    """A line of a file that could not be used (line 0: the whole file), why, and its text."""

    file: str
    line: int
    reason: str
    text: str


class ImportReport(BaseModel):
    """The outcome of an import, summed over its files."""

    files: int = 0
    sessions_created: list[str] = Field(default_factory=list)
    """Ids of sessions that are new as roots or spawned sessions."""
    forks_created: list[str] = Field(default_factory=list)
    """Ids of forks made for branches of the source."""
    grown: list[str] = Field(default_factory=list)
    """Ids of sessions that were there and got more turns."""
    unchanged: list[str] = Field(default_factory=list)
    """Ids of sessions that held everything already."""
    changed: list[str] = Field(default_factory=list)
    """Ids of forks made because the source's earlier turns differ from what was imported before."""
    deleted: list[str] = Field(default_factory=list)
    """Ids of sessions that were deleted here and therefore not imported again."""
    turns_added: int = 0
    records: dict[str, int] = Field(default_factory=dict)
    """Records of the source by type, those that make no turn too."""
    problems: list[FileProblem] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def add(self, other: ImportReport) -> None:
        """Add another report's figures to this one."""
        for name in type(self).model_fields:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                for key, count in theirs.items():
                    mine[key] = mine.get(key, 0) + count
            else:
                setattr(self, name, mine + theirs)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()
