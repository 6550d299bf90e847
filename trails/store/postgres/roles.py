"""The roles of a store in PostgreSQL: what each may do, and the SQL that grants it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


class Right(NamedTuple):
    """A privilege on a table, or on one column of it."""

    privilege: str
    table: str
    column: str = ""


COLUMNS: Final = {"trails_stores": "id"} | dict.fromkeys(
    ("trails_records", "trails_subjects", "trails_readers", "trails_snapshots"), "store"
)
"""The tables, and the column of each that says of which store a row is. Only earlier versions keep snapshots there."""
READING: Final = tuple(Right("SELECT", table) for table in ("trails_stores", "trails_records"))
APPENDING: Final = (
    Right("INSERT", "trails_records"),
    *(Right("UPDATE", "trails_stores", column) for column in ("head", "digest", "due")),
)
REGISTERING: Final = tuple(Right(each, "trails_readers") for each in ("SELECT", "INSERT", "UPDATE", "DELETE"))
INDEXING: Final = (
    *(Right(each, "trails_subjects") for each in ("INSERT", "DELETE")),
    Right("UPDATE", "trails_stores", "indexed"),
)
"""What says of each record which sessions it is about. The column is only there with the table."""
ERASING: Final = (
    *(Right("UPDATE", "trails_records", column) for column in ("body", "body_digest", "rewritten")),
    Right("UPDATE", "trails_stores", "erased"),
)
"""What redaction, deletion and a vacuum need beside `APPENDING`."""
REMOVING: Final = (Right("DELETE", "trails_records"), Right("DELETE", "trails_stores"))
"""What only the owner has."""
_DROPPING: Final = tuple(Right(each, "trails_snapshots") for each in ("SELECT", "DELETE"))
_SEEING: Final = (*READING, Right("SELECT", "trails_subjects"))
KINDS: Final = {
    "reader": (*_SEEING, *REGISTERING),
    "auditor": (*_SEEING, Right("SELECT", "trails_readers")),
    "writer": (*_SEEING, *REGISTERING, *APPENDING, INDEXING[0], INDEXING[2]),
    "redactor": (*_SEEING, *REGISTERING, *APPENDING, *INDEXING, *ERASING, *_DROPPING),
    "owner": (),
}
"""What each kind of role is granted. An owner has the tables."""


@dataclass(frozen=True, slots=True)
class Grants:
    """The SQL that makes a role one of a kind. `tenant` is the store that it is limited to; None: it may use all stores."""

    kind: str
    role: str
    tenant: str | None
    statements: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the grants as plain values, ready for JSON."""
        return {"kind": self.kind, "role": self.role, "tenant": self.tenant, "statements": list(self.statements)}


class Tables(NamedTuple):
    """The tables that a database has: their schema, and the partitions that an owner made of them.

    What is granted on a table reaches its partitions; what is granted on a partition itself reaches past row-level security.
    """

    schema: str
    names: Sequence[str]
    partitions: Sequence[str] = ()


def script(kind: str, role: str, tables: Tables, tenant: str | None = None) -> tuple[str, ...]:
    """Return the statements, one transaction, after which a role has the rights of its kind and no others on these tables.

    With the id of a `tenant`, the role sees the rows of that store alone. Roles that were granted all stores keep them, as
    the database has it when the statements run.

    >>> for line in script("auditor", "eve", Tables("public", ["trails_stores", "trails_records"]))[3:6]: print(line)
    GRANT USAGE ON SCHEMA "public" TO "eve";
    REVOKE ALL ON "public"."trails_stores", "public"."trails_records" FROM "eve";
    GRANT SELECT ON "public"."trails_stores", "public"."trails_records" TO "eve";
    """
    names = {table: f"{quoted(tables.schema)}.{quoted(table)}" for table in COLUMNS if table in tables.names}
    statements = [_make(role), *_give(kind, role, tables.schema, names, tables.partitions)]
    if kind != "owner":
        statements += [_see_all(role, names)] if tenant is None else _limit(role, names, tenant)
    return ("BEGIN;", *(f"{each};" for each in statements), "COMMIT;")


def _block(body: str, declared: str = "") -> str:
    """Return a block that decides something when it runs."""
    tag = "$trails$" if "$trails$" not in body else "$trails_role$"
    return f"DO {tag} {declared}BEGIN {body} END {tag}"


def _make(role: str) -> str:
    """Return what makes a role that is missing: who may make none may still grant an existing one its rights."""
    missing = f"NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal(role)})"
    return _block(f"IF {missing} THEN CREATE ROLE {quoted(role)} LOGIN; END IF;")


def _give(kind: str, role: str, schema: str, names: Mapping[str, str], partitions: Sequence[str]) -> Iterator[str]:
    to = quoted(role)
    if kind == "owner":
        yield f"GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {to}"
        yield from (f"ALTER TABLE {name} OWNER TO {to}" for name in (*names.values(), *partitions))
        return
    owns = f"pg_get_userbyid(relowner) = {literal(role)}"
    yield _block(
        f"IF EXISTS (SELECT FROM pg_class WHERE pg_class.oid = ANY({_oids(names)}) AND {owns}) THEN RAISE EXCEPTION "
        "'this role owns the tables, so that no grant limits it; nothing was changed. Make another role their owner first: "
        "trails store grants owner OTHER'; END IF;"
    )
    yield f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {to}"
    yield f"REVOKE ALL ON {', '.join((*names.values(), *partitions))} FROM {to}"
    rights = KINDS[kind] if "trails_subjects" in names else (each for each in KINDS[kind] if each not in INDEXING)
    yield from grants((right._replace(table=names[right.table]) for right in rights if right.table in names), to)


def _limit(role: str, names: Mapping[str, str], tenant: str) -> Iterator[str]:
    """Yield what lets a role see the rows of one store, and those that have a right on a table by now all its rows."""
    yield _policies(f"NOT relrowsecurity AND rolname <> {literal(role)}", names)
    for table, name in names.items():
        yield f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY"
        for of in (None, tenant):
            yield f"DROP POLICY IF EXISTS {quoted(_policy(role, of))} ON {name}"
        rows = f"{_hash(COLUMNS[table])} = {literal(_hash_of(tenant))}"
        yield f"CREATE POLICY {quoted(_policy(role, tenant))} ON {name} TO {quoted(role)} USING ({rows})"


def _see_all(role: str, names: Mapping[str, str]) -> str:
    """Return what lets a role see all rows of the tables with row-level security."""
    return _policies(f"relrowsecurity AND rolname = {literal(role)}", names)


def _policies(which: str, names: Mapping[str, str]) -> str:
    """Return what lets some roles see all rows of some tables: those that have a right on a table when it runs."""
    body = f"""FOR one IN SELECT DISTINCT CAST(pg_class.oid AS regclass) AS seen, rolname,
        'trails_' || left(encode(sha256(convert_to('* ' || rolname, 'UTF8')), 'hex'), 24) AS policy
      FROM pg_class, aclexplode(relacl) AS given JOIN pg_roles ON pg_roles.oid = given.grantee
      WHERE pg_class.oid = ANY({_oids(names)}) AND given.grantee <> relowner AND {which}
    LOOP
      EXECUTE format('DROP POLICY IF EXISTS %I ON %s', one.policy, one.seen);
      EXECUTE format('CREATE POLICY %I ON %s TO %I USING (true)', one.policy, one.seen, one.rolname);
    END LOOP;"""  # noqa: S608 - names and literals are quoted
    return _block(body, "DECLARE one record; ")


def _oids(names: Mapping[str, str]) -> str:
    return f"CAST(ARRAY[{', '.join(map(literal, names.values()))}] AS regclass[])"


def _hash(column: str) -> str:
    """Return the SQL for `_hash_of` a store's id. Every role may read policies, and an id tells a store's channel."""
    return f"encode(sha256(convert_to('tenant ' || {column}, 'UTF8')), 'hex')"


def _hash_of(store: str) -> str:
    """Return what stands for a store's id in a policy."""
    return hashlib.sha256(f"tenant {store}".encode()).hexdigest()


def _policy(role: str, tenant: str | None) -> str:
    """Return the name of the policy for a role and a store, of the length that PostgreSQL takes."""
    return "trails_" + hashlib.sha256(f"{tenant or '*'} {role}".encode()).hexdigest()[:24]


def quoted(name: str) -> str:
    """Return a name as SQL writes it.

    >>> quoted('my "own" role')
    '"my ""own"" role"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def grants(rights: Iterable[Right], role: str = "ROLE") -> list[str]:
    """Return the grants that give rights to a role, one for all tables with the same rights.

    >>> grants([Right("SELECT", "trails_stores"), Right("SELECT", "trails_records"), Right("DELETE", "trails_readers")])
    ['GRANT SELECT ON trails_stores, trails_records TO ROLE', 'GRANT DELETE ON trails_readers TO ROLE']
    >>> grants([Right("UPDATE", "trails_stores", "head"), Right("UPDATE", "trails_stores", "due")], "bob")
    ['GRANT UPDATE (head, due) ON trails_stores TO bob']
    """
    by_table: dict[str, dict[str, list[str]]] = {}
    for right in rights:
        by_table.setdefault(right.table, {}).setdefault(right.privilege, []).append(right.column)
    tables: dict[str, list[str]] = {}
    for table, privileges in by_table.items():
        tables.setdefault(", ".join(_with_columns(*each) for each in privileges.items()), []).append(table)
    return [f"GRANT {what} ON {', '.join(on)} TO {role}" for what, on in tables.items()]


def _with_columns(privilege: str, columns: list[str]) -> str:
    return privilege if "" in columns else f"{privilege} ({', '.join(columns)})"
