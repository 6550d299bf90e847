"""Read the actions of an RO-Crate as PROV.

An action is an activity, its `object` what it used, its `result` what it generated, its `agent` who was associated with it, and
its `instrument` the plan by which. `author` and `creator` are attributions, `isBasedOn` is a derivation. This is the mapping
of the Workflow Run Crate profiles (Leo et al. 2024, "Recording provenance of workflow runs with RO-Crate", table 3). A name that
is relative to the crate stands under `arcp://ni,sha-256;...`, by the SHA-256 of the metadata file. The context is not fetched:
terms are those of RO-Crate's own context, 1.1 and 1.2, and those that a crate's `@context` names itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from trails.errors import InvalidInput
from trails.provenance.statements import (
    LABEL,
    TYPE,
    Attribute,
    Document,
    Statement,
    Value,
    name_value,
    read_json_object,
)
from trails.provenance.statements import Bundle as Statements

CRATE: Final = "ro-crate-metadata.json"
"""The name of the file that makes a folder a crate."""
EXPORT: Final = "https://w3id.org/trails#"
"""What the records of a crate of ours conform to: by it an import knows them."""
RECORDS: Final = "records.nq"
_SCHEMA: Final = "http://schema.org/"
_PREFIXES: Final = {
    "bibo": "http://purl.org/ontology/bibo/", "cc": "http://creativecommons.org/ns#", "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/", "frapo": "http://purl.org/cerif/frapo/",
    "geosparql": "http://www.opengis.net/ont/geosparql#", "pav": "http://purl.org/pav/", "pcdm": "http://pcdm.org/models#",
    "prof": "http://www.w3.org/ns/dx/prof/", "prov": "http://www.w3.org/ns/prov#", "schema": _SCHEMA,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#", "wfdesc": "http://purl.org/ro/wfdesc#",
    "wfprov": "http://purl.org/ro/wfprov#",
}  # fmt: skip
_TYPES: Final = {
    "File": "schema:MediaObject", "Journal": "schema:Periodical", "RepositoryCollection": "pcdm:Collection",
    "RepositoryObject": "pcdm:Object", "RepositoryFile": "pcdm:File", "Standard": "dct:Standard",
    "Profile": "prof:Profile", "ResourceDescriptor": "prof:ResourceDescriptor", "ResourceRole": "prof:ResourceRole",
    "Geometry": "geosparql:Geometry", "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    "ContainerImage": "https://w3id.org/ro/terms/workflow-run#ContainerImage",
}  # fmt: skip
"""The types of RO-Crate's context, and that of Workflow Run Crate, that are not schema.org's of the same name."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ACTION: Final = {"object", "result", "agent", "instrument", "startTime", "endTime", "name"}
_AUTHORS: Final = ("author", "creator")
_ELEMENT: Final = {*_AUTHORS, "isBasedOn", "name"}
Entity = Mapping[str, Any]


class CrateContent(NamedTuple):
    """What a crate says as PROV, and how often each property was left out that PROV has no place for."""

    document: Document
    left_out: Mapping[str, int]


def read_crate(data: bytes) -> Document:
    """Return the actions of a crate as PROV, given its `ro-crate-metadata.json`; `InvalidInput` for what is none.

    >>> text = b'{"@graph": [{"@id": "#a", "@type": "CreateAction", "result": {"@id": "out.txt"}}]}'
    >>> [each.kind for each in read_crate(text).bundles[0].statements]
    ['activity', 'wasGeneratedBy', 'entity']
    """
    return crate_content(data).document


def crate_content(data: bytes) -> CrateContent:
    """Return what `read_crate` does, and what it leaves out. Errors are those of `read_crate`."""
    return _Reader(data).content()


def has_records(data: bytes) -> bool:
    """Tell whether a crate says that it holds sessions as Trails exports them, in `RECORDS`."""
    entity = _entities(data).get(RECORDS)
    return entity is not None and _ids(entity.get("conformsTo")) == [EXPORT]


def _entities(data: bytes) -> dict[str, Entity]:
    graph = read_json_object(data, "RO-Crate").get("@graph")
    if not isinstance(graph, list) or not all(isinstance(e, dict) and isinstance(e.get("@id"), str) for e in graph):
        raise InvalidInput("this is no RO-Crate: it has no @graph of entities that have an @id")
    entities = {each["@id"]: each for each in graph}
    if len(entities) < len(graph):
        raise InvalidInput("the RO-Crate describes an entity twice; keep one")
    return entities


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _ids(value: Any) -> list[str]:
    """Return the names that a property refers to."""
    return [each["@id"] for each in _list(value) if isinstance(each, dict) and isinstance(each.get("@id"), str)]


def _types(entity: Entity) -> list[str]:
    return [each for each in _list(entity.get("@type")) if isinstance(each, str)]


def _is_action(entity: Entity) -> bool:
    return any(each.endswith("Action") for each in _types(entity))


def _own_terms(data: bytes) -> dict[str, str]:
    """Return what a crate's own context says that terms and prefixes stand for."""
    contexts = _list(read_json_object(data, "RO-Crate").get("@context"))
    return {
        term: iri
        for context in contexts
        if isinstance(context, dict)
        for term, iri in context.items()
        if isinstance(iri, str) and not term.startswith("@")
    }


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._entities = _entities(data)
        self._own = _own_terms(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        self._base = f"arcp://ni,sha-256;{digest}/"
        self._left_out: Counter[str] = Counter()
        self._elements: dict[str, str] = {}
        """The names of what actions refer to, and whether each is an agent or an entity. Who is both is an agent."""

    def content(self) -> CrateContent:
        actions = [each for each in self._entities.values() if _is_action(each)]
        if not actions:
            raise InvalidInput("this RO-Crate has no action, so it says nothing of what made what")
        statements = [each for action in actions for each in self._action(action)]
        written: set[tuple[str, str]] = set()
        while rest := [each for each in self._elements.items() if each not in written]:
            written.update(rest)  # an author of what was made may be made by somebody, too
            for name, kind in rest:
                statements.extend(self._element(name, kind))
        kept = {*self._elements, *(each["@id"] for each in actions)}
        self._left_out["entities that no action refers to"] = len(self._entities.keys() - kept)
        names = {name for s in statements for name in (s.id, *s.arguments) if name and _SCHEME.match(name)}
        schemes = sorted({name.partition(":")[0] for name in names} - {"arcp", "http", "https", "urn"})
        prefixes = {"crate": self._base, "schema": _SCHEMA, **{f"of-{each}": f"{each}:" for each in schemes}}
        left_out = {what: count for what, count in sorted(self._left_out.items()) if count}
        return CrateContent(Document([Statements(None, statements)], prefixes), left_out)

    def _iri(self, name: str) -> str:
        if _SCHEME.match(name):
            return self._expanded(name)
        return self._base + quote(name.removeprefix("./"), safe="/#%~:@!$&'()*+,;=?-._")

    def _expanded(self, name: str) -> str:
        """Return the IRI that a name with a colon stands for: itself, or what follows a prefix of the context."""
        prefix, _, rest = name.partition(":")
        start = self._own.get(prefix, _PREFIXES.get(prefix))
        return name if start is None or rest.startswith("//") else start + rest

    def _type(self, term: str) -> str:
        known = self._own.get(term, _TYPES.get(term, term))
        return self._expanded(known) if _SCHEME.match(known) else _SCHEMA + known

    def _refer(self, value: Any, kind: str, property_: str) -> list[str]:
        """Return what a property refers to. A text, which refers to nothing, is counted, and so is an action.

        Provenance Run Crate has a `ControlAction` whose object is an action. PROV uses and generates entities alone.
        """
        found = _ids(value)
        names = [name for name in found if not _is_action(self._entities.get(name, {}))]
        self._left_out[f"{property_} without a name"] += len(_list(value)) - len(found)
        self._left_out[f"{property_} that is an action"] += len(found) - len(names)
        for name in names:
            if kind == "agent" or name not in self._elements:
                self._elements[name] = kind
        return names

    def _action(self, action: Entity) -> Iterator[Statement]:
        iri = self._iri(action["@id"])
        times = [self._time(action.get(name), name) for name in ("startTime", "endTime")]
        yield Statement("activity", iri, tuple(times), self._attributes(action, _ACTION))
        for name in self._refer(action.get("object"), "entity", "object"):
            yield Statement("used", None, (iri, self._iri(name), None))
        for name in self._refer(action.get("result"), "entity", "result"):
            yield Statement("wasGeneratedBy", None, (self._iri(name), iri, None))
        agents: Sequence[str | None] = self._refer(action.get("agent"), "agent", "agent") or [None]
        plans: Sequence[str | None] = self._refer(action.get("instrument"), "entity", "instrument") or [None]
        for agent in agents:
            for plan in plans:
                if agent is not None or plan is not None:
                    who, how = (None if each is None else self._iri(each) for each in (agent, plan))
                    yield Statement("wasAssociatedWith", None, (iri, who, how))

    def _element(self, name: str, kind: str) -> Iterator[Statement]:
        entity = self._entities.get(name, {"@id": name})
        iri = self._iri(name)
        yield Statement(kind, iri, (), self._attributes(entity, _ELEMENT))
        for property_ in _AUTHORS:
            for author in self._refer(entity.get(property_), "agent", property_):
                yield Statement("wasAttributedTo", None, (iri, self._iri(author)))
        for source in self._refer(entity.get("isBasedOn"), "entity", "isBasedOn"):
            yield Statement("wasDerivedFrom", None, (iri, self._iri(source), None, None, None))

    def _attributes(self, entity: Entity, kept: set[str]) -> tuple[Attribute, ...]:
        self._left_out.update(name for name in entity.keys() - kept - {"@id", "@type"})
        types = [self._type(each) for each in _types(entity)]
        labels = [each for each in _list(entity.get("name")) if isinstance(each, str)]
        return (*((TYPE, name_value(each)) for each in types), *((LABEL, Value(each)) for each in labels))

    def _time(self, value: Any, property_: str) -> str | None:
        """Return a time as PROV writes it; a date without one, which PROV has no place for, is counted."""
        try:
            if "T" in value:
                datetime.fromisoformat(value)
                return str(value)
        except (TypeError, ValueError):
            pass
        self._left_out[f"{property_} that is no time"] += value is not None
        return None
