"""A connection to a server of PostgreSQL: made where it is missing, its driver's errors in words of ours.

What the driver raises becomes `StoreFailed` here, without what is secret in the address. A connection that broke is made
anew at the next call; whether a commit that it carried was written is told by the commit's id in the tail.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trails.errors import InvalidInput, StoreFailed, StoreReadOnly
from trails.store.postgres import statements
from trails.store.postgres.address import Address

if TYPE_CHECKING:
    import psycopg

    from trails.store.postgres.connection import Connection

_KEPT: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "connect_timeout": 10,
    "tcp_user_timeout": 25_000,  # ms: no keepalive is sent while something that was sent is not acknowledged
}
READING: Final = 5.0
"""Seconds for which `sync` waits for an answer: nothing that it asks for waits for a lock, or for a disk that writes."""
PATIENCE: Final = 20.0
"""Seconds for which a commit tries to reach a server that went away."""
_PREPARED: Final = 5
"""How often a statement is used before it is prepared, on a connection that is nobody else's."""
_OF_URL: Final = re.compile(
    "invalid .*value|invalid port number|invalid connection option|unrecognized configuration parameter|unsupported startup"
)
"""What libpq and the server say of a parameter in the URL, rather than of themselves."""
_OF_DATABASE: Final = (
    '(database|role) ".*" does not exist|does not support SSL|authentication failed|no pg_hba.conf entry'
)
"""What libpq and the server say of what trying again does not mend."""
_Done = TypeVar("_Done")


class Unreachable(StoreFailed):
    """The server is away, or went away while it was asked: what it did last is not known."""


class ReadOnlyServer(StoreFailed, StoreReadOnly):
    """The server takes no writes: it is a standby, or its transactions only read."""


class MovingServer(ReadOnlyServer, Unreachable):
    """It takes none, and the address stands for several servers: another may be asked next."""


class NoTable(StoreFailed):
    """The tables are not there."""


class NoFunction(StoreFailed):
    """Not every server that speaks this protocol has all of PostgreSQL's functions."""


class Again(StoreFailed):
    """The server could not put this transaction in order with others (40001): nothing was written."""


def kept(error: StoreFailed) -> StoreFailed:
    """Return an error of a commit, which says that nothing is lost if the server was away."""
    return type(error)(f"{error.message}; what is pending is kept") if isinstance(error, Unreachable | Again) else error


class Link:
    """One connection to a server. Its caller sees to it that one thread uses it at a time."""

    def __init__(self, address: Address) -> None:
        """Nothing is connected yet; raises `InvalidInput` where the driver is missing."""
        self.address = address
        self.trips = 0
        """How often the server was asked for something and waited for."""
        self.driver = driver()
        self.is_pooled = False
        """Whether the connection that was made last goes through a pooler, which gives it to others between transactions."""
        self.has_warned = False
        """Whether the server warned of something since this was set to False."""
        self._connection: Connection | None = None
        self._silence: float | None = None
        """For how many seconds an answer is waited for, if not for as long as any may take."""
        self._may_move = False
        """Whether the address names several servers."""

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and not self._connection.closed

    @contextlib.contextmanager
    def asked(self) -> Iterator[Connection]:
        """Give the connection, made where it is missing, and say in words of ours what the driver says of a failure."""
        errors = self.driver.errors
        try:
            self.trips += 1
            connection = self._connected()
            connection.silence = self._silence
            yield connection
        except (errors.UndefinedTable, errors.InvalidCatalogName) as error:
            self.hang_up()
            raise NoTable(
                f"the database of {self.address.shown} lacks a table ({self.address.without_secrets(error)}); restore a backup"
            ) from None
        except errors.UndefinedFunction as error:
            self.hang_up()
            raise NoFunction(self._said(error)) from None
        except errors.InsufficientPrivilege as error:
            self.hang_up()
            raise StoreFailed(
                f"the user of {self.address.shown} has no right to do that ({self.address.without_secrets(error)}); nothing was "
                "written; `trails guide postgres-operations` says what readers, writers and the owner may do"
            ) from None
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            self.hang_up()
            raise Again(self._said(error)) from None
        except errors.ReadOnlySqlTransaction:
            self.hang_up()
            raise self._takes_no_writes() from None
        except (self.driver.OperationalError, self.driver.InterfaceError) as error:
            self.hang_up()
            raise Unreachable(self._said(error)) from None
        except self.driver.Error as error:
            self.hang_up()
            raise StoreFailed(self._said(error)) from None
        except BaseException:  # an interrupt: nobody knows where the conversation stands
            self.hang_up()
            raise

    def is_standby(self) -> bool:
        """Tell whether this server replays what another one writes, as far as it says so."""
        with contextlib.suppress(StoreFailed), self.asked() as connection:
            return connection.execute(statements.IS_STANDBY).fetchone() == (True,)
        return False

    @contextlib.contextmanager
    def briefly(self, seconds: float) -> Iterator[None]:
        """Wait no longer than that for an answer, or for a connection, within this block."""
        before, self._silence = self._silence, seconds
        try:
            yield
        finally:
            self._silence = before

    def hang_up(self) -> None:
        """End this connection; the next call makes it anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            given = self._given()
            self._may_move = "," in f"{given.get('host', '')}"
            own = {**_KEPT, "application_name": "trails"}
            options: dict[str, Any] = {name: value for name, value in own.items() if name not in given}
            if self._silence is not None and "connect_timeout" in options:
                options["connect_timeout"] = max(2, round(self._silence))
            from trails.store.postgres.connection import Connection  # noqa: PLC0415 - needs the driver

            try:
                made = Connection.connect(self.address.conninfo, autocommit=True, prepare_threshold=None, **options)
            except self.driver.Error as error:
                if isinstance(error, self.driver.ProgrammingError) or _OF_URL.search(f"{error}"):
                    raise self._wrong_url(error) from None
                raise
            self._connection, made.silence = made, self._silence
            made.add_notice_handler(self._noticed)
            self.is_pooled = made.execute(statements.WHO_ANSWERS).fetchone() != (made.info.backend_pid,)
            if not self.is_pooled:
                made.prepare_threshold = _PREPARED
            self._greet(made)
        return self._connection

    def _greet(self, connection: Connection) -> None:
        """Do what each new connection begins with."""

    def _given(self) -> Mapping[str, Any]:
        """Return the parameters of the URL by libpq's names; raise `InvalidInput` for one that libpq does not know."""
        try:
            return self.driver.conninfo.conninfo_to_dict(self.address.conninfo)  # type: ignore[no-any-return] # a module of its own
        except self.driver.ProgrammingError as error:
            raise self._wrong_url(error) from None

    def _wrong_url(self, error: Exception) -> InvalidInput:
        said = self.address.without_secrets(error)
        return InvalidInput(
            f"the URL of {self.address.shown} has a parameter that cannot be used ({said}); correct it: besides `store` and "
            "`direct`, the parameters are those of libpq"
        )

    def _takes_no_writes(self) -> StoreFailed:
        """Return the error for a server that refused to write: it is a standby, or this user's transactions only read."""
        what, remedy = (
            ("is a standby", "name the primary in the URL, or all hosts and target_session_attrs=read-write")
            if self.is_standby()
            else ("lets this user only read (default_transaction_read_only is on)", "let its owner set that off")
        )
        said = f"the server of {self.address.shown} {what}: nothing was written; {remedy}, or open the store with read_only=True"
        return MovingServer(said) if self._may_move or self.is_pooled else ReadOnlyServer(said)

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        self.has_warned = self.has_warned or notice.severity_nonlocalized == "WARNING"

    def _said(self, error: Exception) -> str:
        said = self.address.without_secrets(error)
        remedy = "try again"
        if re.search(_OF_DATABASE, said):
            remedy = "make what is missing, or correct the URL"
        return f"the server of {self.address.shown} cannot be used ({said}); {remedy}"


def patiently(work: Callable[[], _Done], seconds: float | None = None) -> _Done:
    """Return what comes of something that is done again while the server cannot be reached, for `PATIENCE` seconds or as
    many as given; then raise what it raised."""
    end, pause = time.monotonic() + (PATIENCE if seconds is None else seconds), 0.05
    while True:
        try:
            return work()
        except (Unreachable, Again):
            if time.monotonic() > end:
                raise
            time.sleep(pause)
            pause = min(1.0, pause * 2)


def driver() -> ModuleType:
    """Return psycopg; raise `InvalidInput` where it is not installed."""
    try:
        import psycopg  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidInput(
            "a store in PostgreSQL needs psycopg, which is not installed: pip install 'trails[postgres]'"
        ) from error
    return psycopg


def store_is_gone(address: Address) -> StoreFailed:
    """Return the error for a store whose row is missing."""
    return StoreFailed(f"the store {address.shown} was taken out of its database; restore it from a backup")
