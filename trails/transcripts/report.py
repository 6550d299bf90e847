"""What an import did and what it could not do: nothing is dropped without a line here."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field

from trails.secrets import Found, shown_id

_IDS: Final = ("sessions_created", "forks_created", "grown", "unchanged", "changed", "deleted")


class FileProblem(BaseModel):
    """A line of a file that could not be used (line 0: the whole file), why, and its text."""

    file: str
    line: int
    reason: str
    text: str


class LeftOut(BaseModel):
    """Texts of a file that no session keeps: how many stand at a place, and why they are left out."""

    file: str
    place: str
    """The path of their field, such as `message.content[].text`."""
    line: int
    """The line of the first one, from 1; 0 where the file is one document."""
    reason: str
    count: int = 0
    characters: int = 0
    is_prose: bool = False
    """Whether one of them has several words; else they are ids, times, digests and the like."""


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
    scores_added: int = 0
    turns_held: int = 0
    """Turns at the ends of files still being written that were kept back, since they may not be whole yet."""
    records: dict[str, int] = Field(default_factory=dict)
    """Records of the source by type, those that make no turn too."""
    problems: list[FileProblem] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    """Texts of 20 characters and more that no session keeps, counted by file and place."""
    secrets: list[Found] = Field(default_factory=list)
    """Keys, tokens and passwords in what came in: where, never what. Those that are `redacted` were taken out."""

    def add(self, other: ImportReport) -> None:
        """Add another report's figures to this one."""
        for name in type(self).model_fields:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                for key, count in theirs.items():
                    mine[key] = mine.get(key, 0) + count
            elif isinstance(mine, list):
                mine.extend(theirs)  # in place: a file may come in thousands of parts
            else:
                setattr(self, name, mine + theirs)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {**self.model_dump(), **self.shown_ids(), "secrets": [each.to_dict() for each in self.secrets]}

    def shown_ids(self) -> dict[str, list[str]]:
        """Return the lists of session ids by name as they may be shown: with a mark for what in them is a secret."""
        return {name: [shown_id(each) for each in getattr(self, name)] for name in _IDS}
