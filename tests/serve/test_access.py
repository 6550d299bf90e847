"""Who may call a server: tokens, signing in from a browser, issuers of OpenID Connect, and what the guard refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("jwt")
pytest.importorskip("cryptography")

import base64
import hmac
import json
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

import trails
from trails.serve import guard, tokens
from trails.serve.access import caller_of, check_start, own_principal, require
from trails.serve.app import create_app
from trails.serve.callers import Caller
from trails.serve.oidc import Issuer, Verifier
from trails.serve.service import Settings
from trails.serve.sign_ins import SignIns
from trails.serve.tokens import TokenFile

HERE = "http://localhost"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[trails.Repository]:
    with trails.open(tmp_path / "store", create=True) as store:
        yield store


@pytest.fixture
def kept(store: trails.Repository) -> TokenFile:
    assert store.store.folder is not None
    return TokenFile(store.store.folder / tokens.NAME)


async def _who(request: Request) -> Response:
    caller = caller_of(request)
    return JSONResponse({"principal": caller.principal, "role": caller.role, "all": caller.sees_all})


async def _may(request: Request) -> Response:
    require(request, request.path_params["right"])
    return JSONResponse({"for": own_principal(request, request.query_params.get("principal"))})


async def _body(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def _free(request: Request) -> Response:
    return JSONResponse({})


def app_of(store: trails.Repository, **settings: Any) -> Starlette:
    app = create_app(store, Settings(**settings))
    routes = [
        Route("/test/who", _who),
        Route("/test/may/{right}", _may, methods=["GET", "POST"]),
        Route("/test/body", _body, methods=["POST"]),
        Route("/test/free", _free),
    ]
    app.router.routes[:0] = routes
    return app


def client_of(store: trails.Repository, address: str = HERE, **settings: Any) -> TestClient:
    return TestClient(app_of(store, **settings), base_url=address, follow_redirects=False)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


# --- tokens


def test_without_any_token_whoever_is_at_this_machine_is_an_admin(store: trails.Repository) -> None:
    assert client_of(store).get("/test/who").json() == {"principal": None, "role": "admin", "all": True}


@pytest.mark.parametrize(
    "settings", [{"host": "10.0.0.1"}, {"is_behind_proxy": True}, {"tokens": Path("/nowhere/tokens")}]
)
def test_nobody_is_an_admin_by_being_there_where_others_can_call(
    store: trails.Repository, settings: dict[str, Any]
) -> None:
    answer = client_of(store, **settings).get("/test/who")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_token_says_who_calls(store: trails.Repository, kept: TokenFile) -> None:
    _, secret = kept.make("laptop", "alice", "writer")
    _, every = kept.make("crawler", "bob", "reader", is_for_all=True)
    client = client_of(store)
    assert client.get("/test/who", headers=bearer(secret)).json() == {
        "principal": "alice",
        "role": "writer",
        "all": False,
    }
    assert client.get("/test/who", headers=bearer(every)).json() == {"principal": "bob", "role": "reader", "all": True}


def test_once_there_are_tokens_nobody_is_let_in_without_one(store: trails.Repository, kept: TokenFile) -> None:
    client = client_of(store)
    assert client.get("/test/who").status_code == 200
    kept.make("laptop", "alice", "admin")
    assert client.get("/test/who").status_code == 401
    kept.revoke("laptop")
    assert client.get("/test/who").status_code == 401


def test_the_secret_is_kept_nowhere_and_the_file_is_its_owners_alone(kept: TokenFile) -> None:
    token, secret = kept.make("laptop", "alice", "reader")
    text = kept.path.read_text()
    assert secret not in text
    assert secret.removeprefix("trails_") not in text
    assert secret not in repr(token)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert len(secret) == len("trails_") + 43  # 256 bits, six in a character


def test_a_revoked_token_does_not_hold_from_the_next_request_on(store: trails.Repository, kept: TokenFile) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    client = client_of(store)
    assert client.get("/test/who", headers=bearer(secret)).status_code == 200
    TokenFile(kept.path).revoke("laptop")  # as another process does
    assert client.get("/test/who", headers=bearer(secret)).status_code == 401


def test_an_expired_token_does_not_hold(kept: TokenFile) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    _, secret = kept.make("visit", "alice", "reader", expires=soon)
    assert kept.find(secret, soon - timedelta(seconds=1)) is not None
    assert kept.find(secret, soon) is None


@pytest.mark.parametrize(
    "changed",
    [lambda s: s[:-1] + ("A" if s[-1] != "A" else "B"), str.upper, lambda s: s + "A", lambda s: s[7:], lambda s: ""],
)
def test_a_text_that_is_almost_a_token_lets_nobody_in(
    store: trails.Repository, kept: TokenFile, changed: Callable[[str], str]
) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    client = client_of(store)
    assert client.get("/test/who", headers=bearer(changed(secret))).status_code == 401
    token = kept.find(secret)
    assert token is not None
    assert client.get("/test/who", headers=bearer(token.sha256)).status_code == 401
    assert client.get("/test/who", headers={"Authorization": f"Basic {secret}"}).status_code == 401


def test_a_file_that_others_can_read_or_that_is_damaged_lets_nobody_in(
    store: trails.Repository, kept: TokenFile
) -> None:
    _, secret = kept.make("laptop", "alice", "admin")
    client = client_of(store)
    kept.path.chmod(0o640)
    assert client.get("/test/who", headers=bearer(secret)).status_code == 503
    assert client.get("/test/who").status_code == 401
    kept.path.chmod(0o600)
    kept.path.write_text('{"version": 1, "tokens": [{}]}')
    assert client.get("/test/who", headers=bearer(secret)).status_code == 503
    kept.path.write_text("")
    assert client.get("/test/who", headers=bearer(secret)).status_code == 503


@pytest.mark.parametrize(
    ("name", "principal", "role", "expires"),
    [
        ("", "alice", "reader", None),
        ("a b", "alice", "reader", None),
        ("a", "", "reader", None),
        ("a", "redacted", "reader", None),
        ("a", "alice", "root", None),
        ("a", "alice", "reader", datetime(2020, 1, 1, tzinfo=UTC)),
        ("a", "alice", "reader", datetime(2120, 1, 1)),  # noqa: DTZ001 - it is to be refused
    ],
)
def test_a_token_that_cannot_be_is_refused_and_nothing_is_written(
    kept: TokenFile, name: str, principal: str, role: Any, expires: datetime | None
) -> None:
    with pytest.raises(trails.InvalidInput):
        kept.make(name, principal, role, expires=expires)
    assert not kept.exists


def test_a_tokens_name_is_used_once(kept: TokenFile) -> None:
    kept.make("laptop", "alice", "reader")
    with pytest.raises(trails.InvalidInput, match="already"):
        kept.make("laptop", "bob", "reader")
    with pytest.raises(trails.InvalidInput, match="laptop"):
        kept.revoke("desktop")
    assert [token.principal for token in kept.every()] == ["alice"]


def test_tokens_that_are_made_at_once_are_all_kept(kept: TokenFile) -> None:
    makers = [threading.Thread(target=TokenFile(kept.path).make, args=(f"t{n}", "alice", "reader")) for n in range(8)]
    for each in makers:
        each.start()
    for each in makers:
        each.join()
    assert sorted(token.name for token in kept.every()) == [f"t{n}" for n in range(8)]


def test_a_file_of_tokens_that_goes_away_opens_nothing(store: trails.Repository, kept: TokenFile) -> None:
    kept.make("laptop", "alice", "reader")
    client = client_of(store)
    kept.path.unlink()
    assert client.get("/test/who").status_code == 401


# --- roles


@pytest.mark.parametrize(
    ("role", "rights"),
    [("reader", {"read"}), ("auditor", {"read"}), ("writer", {"read", "write"}), ("admin", {"read", "write", "admin"})],
)
def test_each_role_has_its_rights_and_no_other(
    store: trails.Repository, kept: TokenFile, role: Any, rights: set[str]
) -> None:
    _, secret = kept.make("one", "alice", role)
    client = client_of(store)
    codes = {
        right: client.get(f"/test/may/{right}", headers=bearer(secret)).status_code
        for right in ("read", "write", "admin")
    }
    assert codes == {right: 200 if right in rights else 403 for right in codes}


def test_a_writer_makes_sessions_for_nobody_else(store: trails.Repository, kept: TokenFile) -> None:
    _, own = kept.make("one", "alice", "writer")
    _, every = kept.make("two", "alice", "writer", is_for_all=True)
    client = client_of(store)

    def ask(secret: str, **params: str) -> Any:
        return client.get("/test/may/write", headers=bearer(secret), params=params)

    assert ask(own).json() == ask(own, principal="alice").json() == {"for": "alice"}
    assert ask(own, principal="bob").status_code == 403
    assert ask(every, principal="bob").json() == {"for": "bob"}


# --- hosts, origins, sizes, headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "user@localhost", "localhost:80:80", "localhost:port", "",
     "testserver", "localhost/", "10.0.0.1", "0.0.0.0", "[::]:80"],  # noqa: S104
)  # fmt: skip
def test_a_host_that_is_not_the_servers_is_refused(store: trails.Repository, host: str) -> None:
    assert client_of(store, host="0.0.0.0").get("/test/free", headers={"Host": host}).status_code == 421  # noqa: S104
    assert client_of(store).get("/test/free", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8420", "127.0.0.1:1", "[::1]:8420", "trails.example", "other.example:99"]
)
def test_the_servers_own_hosts_are_taken(store: trails.Repository, host: str) -> None:
    client = client_of(store, allowed_hosts=("Trails.example", "other.example:99"))
    assert client.get("/test/free", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:99"}, {"Origin": "https://localhost"},
     {"Origin": "ftp://localhost"}, {"Origin": "http://localhost.evil.example"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_a_write_from_another_site_is_refused(store: trails.Repository, headers: dict[str, str]) -> None:
    client = client_of(store)
    assert client.post("/test/body", content=b"abc", headers=headers).status_code == 403
    assert client.request("DELETE", "/test/body", headers=headers).status_code == 403
    assert client.get("/test/free", headers=headers).status_code == 200  # whose answer another site cannot read


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://localhost"}, {"Origin": "http://localhost:80"}, {"Sec-Fetch-Site": "same-origin"}],
)
def test_a_write_from_here_or_from_no_page_is_taken(store: trails.Repository, headers: dict[str, str]) -> None:
    assert client_of(store).post("/test/body", content=b"abc", headers=headers).json() == {"bytes": 3}


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so(store: trails.Repository) -> None:
    client = client_of(store, max_body=1000)
    assert client.post("/test/body", content=b"x" * 1000).json() == {"bytes": 1000}
    assert client.post("/test/body", content=b"x" * 1001).status_code == 413
    assert client.post("/test/body", content=iter([b"x" * 600] * 2)).status_code == 413


def test_headers_and_addresses_that_are_too_long_are_refused(store: trails.Repository) -> None:
    client = client_of(store)
    assert client.get("/test/free", headers={"X-Long": "x" * 40_000}).status_code == 431
    assert client.get("/test/free", headers={f"X-{n}": "x" for n in range(120)}).status_code == 431
    assert client.get("/test/free?" + "x" * 33_000).status_code == 414


@pytest.mark.parametrize("path", ["/test/free", "/test/may/nothing", "/nowhere", "/login"])
def test_every_answer_has_the_strict_headers(store: trails.Repository, path: str) -> None:
    headers = client_of(store).get(path).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_a_refused_request_has_the_strict_headers_too(store: trails.Repository) -> None:
    headers = client_of(store).get("/", headers={"Host": "evil.example"}).headers
    assert headers["content-security-policy"] == guard.POLICY


# --- signing in from a browser


def _sign_in(client: TestClient, secret: str, place: str = "/test/who") -> Any:
    return client.post("/login", data={"token": secret, "next": place}, headers={"Origin": HERE})


def test_a_person_is_sent_to_sign_in_and_back(store: trails.Repository, kept: TokenFile) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    client = client_of(store)
    away = client.get("/test/who?a=1&b=2", headers={"Accept": "text/html"})
    assert (away.status_code, away.headers["location"], away.content) == (
        303,
        "/login?next=%2Ftest%2Fwho%3Fa%3D1%26b%3D2",
        b"",
    )
    page = client.get(away.headers["location"])
    assert 'value="/test/who?a=1&amp;b=2"' in page.text
    back = _sign_in(client, secret, "/test/who?a=1&b=2")
    assert (back.status_code, back.headers["location"]) == (303, "/test/who?a=1&b=2")
    assert client.get("/test/who").json()["principal"] == "alice"


def test_the_cookie_is_for_this_site_and_no_script_and_is_not_the_token(
    store: trails.Repository, kept: TokenFile
) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    cookie = _sign_in(client_of(store), secret).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()  # plain http on this machine
    assert secret not in cookie
    assert tokens.sha256_of(secret) not in cookie
    behind = client_of(store, is_behind_proxy=True)
    assert "; secure" in _sign_in(behind, secret).headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "place", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\r\nSet-Cookie: x=y"]
)
def test_nobody_is_sent_to_another_site(store: trails.Repository, kept: TokenFile, place: str) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    assert _sign_in(client_of(store), secret, place).headers["location"] == "/"


def test_the_page_shows_no_markup_of_others(store: trails.Repository) -> None:
    page = client_of(store).get("/login", params={"next": '/"><script>alert(1)</script>'}).text
    assert "<script>" not in page


def test_a_wrong_token_signs_nobody_in(store: trails.Repository, kept: TokenFile) -> None:
    kept.make("laptop", "alice", "reader")
    client = client_of(store)
    answer = _sign_in(client, "trails_" + "A" * 43)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert client.get("/test/who").status_code == 401


def test_a_browser_is_signed_out_with_its_token(store: trails.Repository, kept: TokenFile) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    client = client_of(store)
    _sign_in(client, secret)
    assert client.get("/test/who").status_code == 200
    kept.revoke("laptop")
    assert client.get("/test/who").status_code == 401


def test_after_signing_out_the_cookie_is_worth_nothing(store: trails.Repository, kept: TokenFile) -> None:
    _, secret = kept.make("laptop", "alice", "reader")
    client = client_of(store)
    _sign_in(client, secret)
    (cookie,) = client.cookies.jar
    client.post("/logout", headers={"Origin": HERE})
    assert client.get("/test/who", headers={"Cookie": f"{cookie.name}={cookie.value}"}).status_code == 401


def test_a_write_by_cookie_must_say_that_it_comes_from_here(store: trails.Repository, kept: TokenFile) -> None:
    _, secret = kept.make("laptop", "alice", "writer")
    client = client_of(store)
    _sign_in(client, secret)
    assert client.post("/test/may/write").status_code == 403
    assert client.post("/test/may/write", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/test/may/write", headers={"Origin": HERE}).status_code == 200
    assert client.post("/test/may/write", headers=bearer(secret)).status_code == 200  # no browser adds that by itself


def test_a_made_up_cookie_signs_nobody_in(store: trails.Repository, kept: TokenFile) -> None:
    kept.make("laptop", "alice", "reader")
    client = client_of(store)
    for value in ("", "x" * 43, "../..", '"', tokens.sha256_of("")):
        assert client.get("/test/who", headers={"Cookie": f"trails={value}"}).status_code == 401


def test_what_signs_in_once_does_so_once(store: trails.Repository, kept: TokenFile) -> None:
    kept.make("laptop", "alice", "reader")
    app = app_of(store)
    once = tokens.one_time(app.state.service, Caller("carol", "auditor"))
    first, second = (TestClient(app, base_url=HERE, follow_redirects=False) for _ in range(2))
    assert _sign_in(first, once).status_code == 303
    assert first.get("/test/who").json() == {"principal": "carol", "role": "auditor", "all": True}
    assert _sign_in(second, once).status_code == 403
    assert second.get("/test/who").status_code == 401
    assert first.get("/test/who", headers=bearer(once)).status_code == 401  # it is no token


def test_what_signs_in_once_holds_for_five_minutes_and_a_cookie_for_twelve_hours() -> None:
    now = [0.0]
    sign_ins = SignIns(lambda: now[0])
    early, late = (sign_ins.one_time(Caller("carol", "auditor")) for _ in range(2))
    cookie, short = sign_ins.begin(Caller("carol", "auditor")), sign_ins.begin(Caller("dave", "reader"), None, 60)
    now[0] = 299.9
    assert sign_ins.redeem(early) is not None
    assert sign_ins.find(short) is None
    now[0] = 300.0
    assert sign_ins.redeem(late) is None
    now[0] = 12 * 3600 - 0.1
    assert sign_ins.find(cookie) is not None
    now[0] += 0.1
    assert sign_ins.find(cookie) is None


# --- starting


@pytest.mark.parametrize(
    ("settings", "is_with_token", "refused"),
    [
        ({}, False, None),
        ({}, True, None),
        ({"host": "10.0.0.1"}, False, "no token"),
        ({"host": "10.0.0.1"}, True, "plain text"),
        ({"host": "10.0.0.1", "has_tls": True}, False, "no token"),
        ({"host": "10.0.0.1", "has_tls": True}, True, None),
        ({"host": "10.0.0.1", "is_behind_proxy": True}, True, None),
        ({"is_behind_proxy": True}, False, "no token"),
        ({"is_behind_proxy": True}, True, None),
        ({"host": "localhost.example"}, True, "plain text"),
    ],
)
def test_a_server_that_others_can_call_starts_only_with_a_token_and_a_cover(
    kept: TokenFile, settings: dict[str, Any], is_with_token: bool, refused: str | None
) -> None:
    if is_with_token:
        kept.make("one", "alice", "reader")
    if refused is None:
        check_start(Settings(**settings), kept.path.parent)
    else:
        with pytest.raises(trails.InvalidInput, match=refused):
            check_start(Settings(**settings), kept.path.parent)


def test_a_token_that_does_not_hold_any_more_is_none_to_start_with(kept: TokenFile, tmp_path: Path) -> None:
    kept.make("one", "alice", "reader")
    kept.revoke("one")
    with pytest.raises(trails.InvalidInput, match="no token"):
        check_start(Settings(host="10.0.0.1", has_tls=True), kept.path.parent)
    with pytest.raises(trails.InvalidInput, match="there are no tokens"):
        check_start(Settings(tokens=tmp_path / "none"), None)


# --- an issuer


@dataclass
class _LocalIssuer:
    """An issuer on this machine, with keys by name."""

    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    address: str = ""
    moves_keys: bool = False
    """Whether the address of its keys leads to another one."""

    def add(self, name: str) -> None:
        self.keys[name] = ec.generate_private_key(ec.SECP256R1())

    def body(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.address, "jwks_uri": f"{self.address}/keys"}
        to_jwk: Any = jwt.algorithms.ECAlgorithm.to_jwk
        return {
            "keys": [
                json.loads(to_jwk(key.public_key())) | {"kid": name, "use": "sig"} for name, key in self.keys.items()
            ]
        }

    def token(self, kid: str = "one", key: Any = None, algorithm: str = "ES256", **claims: Any) -> str:
        told = {
            "iss": self.address,
            "aud": "trails",
            "sub": "alice",
            "trails_role": "reader",
            "exp": time.time() + 600,
        } | claims
        told = {name: value for name, value in told.items() if value is not None}
        return str(jwt.encode(told, key or self.keys[kid], algorithm=algorithm, headers={"kid": kid}))


@pytest.fixture
def issuer() -> Iterator[_LocalIssuer]:
    made = _LocalIssuer()
    made.add("one")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(made.body(self.path)).encode()
            self.send_response(302 if made.moves_keys and self.path == "/keys" else 200)
            self.send_header("Location", "/other-keys")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def _with_issuer(store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path, more: str = "") -> TestClient:
    path = tmp_path / "issuer.toml"
    path.write_text(f'issuer = "{issuer.address}"\naudience = "trails"\n{more}')
    return client_of(store, oidc=path)


def test_a_token_of_the_issuer_says_who_calls(store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path) -> None:
    client = _with_issuer(store, issuer, tmp_path)
    assert client.get("/test/who").status_code == 401  # an issuer is there: being here is not enough
    for _ in range(3):
        answer = client.get("/test/who", headers=bearer(issuer.token()))
        assert answer.json() == {"principal": "alice", "role": "reader", "all": False}
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
    assert (
        client.get("/test/who", headers=bearer(issuer.token(trails_role=["x", "auditor"]))).json()["role"] == "auditor"
    )


def test_keys_are_not_fetched_from_where_a_redirect_leads(
    store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path
) -> None:
    issuer.moves_keys = True
    answer = _with_issuer(store, issuer, tmp_path).get("/test/who", headers=bearer(issuer.token()))
    assert (answer.status_code, "/other-keys" in issuer.asked) == (401, False)


def test_the_claims_that_name_principal_and_role_are_configured(
    store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path
) -> None:
    more = 'principal_claim = "email"\nrole_claim = "groups"\ndefault_role = "reader"\n'
    client = _with_issuer(store, issuer, tmp_path, more)
    token = issuer.token(email="bob@example.com", groups=["writer", "staff"])
    assert client.get("/test/who", headers=bearer(token)).json()["principal"] == "bob@example.com"
    assert client.get("/test/who", headers=bearer(issuer.token(email="eve"))).json()["role"] == "reader"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/api/sessions"),
        ("POST", "/api/sessions"),
        ("DELETE", "/api/sessions/plan"),
        ("POST", "/actions/label"),
        ("POST", "/sparql"),
        ("POST", "/store/read"),
        ("POST", "/store/commit"),
    ],
)
@pytest.mark.sample(6)
def test_the_console_of_a_person_lets_in_those_alone_who_came_by_its_link(
    method: str, path: str, store: trails.Repository
) -> None:
    store.create(id="plan").persist()
    with httpx.Client(base_url=store.ui().address) as other:
        headers = {"Trails-Store-Protocol": "1", "content-type": "application/json"}
        assert other.request(method, path, content="{}", headers=headers).status_code == 401
        assert other.get("/health").status_code == 200
    assert store.reader.ids() == ["plan"]


def test_who_came_by_the_link_of_a_console_reads_and_writes(store: trails.Repository) -> None:
    console = store.ui()
    with httpx.Client(base_url=console.address, headers={"origin": console.address}) as own:
        secret = console.link.partition("#")[2]
        assert own.post("/login", data={"token": secret}).status_code == 303
        assert own.post("/api/sessions", json={"id": "plan"}).status_code == 201
        assert [each["id"] for each in own.get("/api/sessions").json()["sessions"]] == ["plan"]


def test_a_browser_signs_in_with_a_token_of_the_issuer(
    store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path
) -> None:
    client = _with_issuer(store, issuer, tmp_path)
    assert _sign_in(client, issuer.token()).status_code == 303
    assert client.get("/test/who").json()["principal"] == "alice"


@pytest.mark.parametrize(
    "claims",
    [{"exp": 1}, {"exp": None}, {"aud": "other"}, {"aud": None}, {"iss": "http://127.0.0.1:1"}, {"iss": None}, {"sub": None},
     {"sub": ""}, {"sub": "redacted"}, {"sub": "anonymous"}, {"trails_role": None}, {"trails_role": "root"},
     {"trails_role": ["reader", "admin"]}, {"trails_role": []}, {"nbf": 9_999_999_999}],
    ids=str,
)  # fmt: skip
def test_a_token_of_the_issuer_that_does_not_hold_lets_nobody_in(
    store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path, claims: dict[str, Any]
) -> None:
    assert (
        _with_issuer(store, issuer, tmp_path).get("/test/who", headers=bearer(issuer.token(**claims))).status_code
        == 401
    )


def _signed_by_text(issuer: _LocalIssuer, secret: bytes) -> str:
    """Return a token whose signature is made with a text that everybody knows: the issuer's public key."""
    _, claims, _ = issuer.token().split(".")
    head = b64(json.dumps({"alg": "HS256", "kid": "one"}).encode())
    return f"{head}.{claims}.{b64(hmac.digest(secret, f'{head}.{claims}'.encode(), 'sha256'))}"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_token_that_another_key_signed_or_none_lets_nobody_in(
    store: trails.Repository, issuer: _LocalIssuer, tmp_path: Path
) -> None:
    client = _with_issuer(store, issuer, tmp_path)
    other = ec.generate_private_key(ec.SECP256R1())
    public = issuer.keys["one"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    good = issuer.token()
    head, claims, signature = good.split(".")
    forged = [
        issuer.token(key=other),
        _signed_by_text(issuer, public),
        f"{b64(json.dumps({'alg': 'none', 'kid': 'one'}).encode())}.{claims}.",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[::-1]}",
        f"{head}.{claims[:-4]}AAAA.{signature}",
        "..",
        "a.b.c",
        "x" * 20_000 + ".b.c",
    ]
    assert client.get("/test/who", headers=bearer(good)).status_code == 200
    for token in forged:
        assert client.get("/test/who", headers=bearer(token)).status_code == 401, token[:60]


def test_keys_are_fetched_again_for_a_name_that_is_not_there_but_not_at_each_request() -> None:
    issuer, now = _LocalIssuer(address="http://127.0.0.1:1"), [0.0]
    issuer.add("one")
    fetch = lambda address: issuer.body(address.removeprefix(issuer.address))  # noqa: E731
    verifier = Verifier(Issuer(issuer.address, "trails"), fetch=fetch, clock=lambda: now[0])
    assert verifier.caller(issuer.token())[0] == Caller("alice", "reader")
    issuer.add("two")
    for _ in range(5):
        with pytest.raises(trails.TrailsError, match="no key of the name"):
            verifier.caller(issuer.token("two"))
    assert issuer.asked.count("/keys") == 1
    now[0] = 11.0
    assert verifier.caller(issuer.token("two"))[0] == Caller("alice", "reader")
    assert verifier.caller(issuer.token("one"))[0] == Caller("alice", "reader")
    assert issuer.asked.count("/keys") == 2
    withdrawn = issuer.token("one")
    del issuer.keys["one"]
    now[0] = 3700.0
    with pytest.raises(trails.TrailsError):
        verifier.caller(withdrawn)


@pytest.mark.parametrize(
    "told", ["issuer = 'http://example.com'\naudience = 'a'", "issuer = 'https://e.com'", "[", "x = 1"]
)
def test_a_file_that_describes_no_issuer_is_refused(tmp_path: Path, told: str) -> None:
    path = tmp_path / "issuer.toml"
    path.write_text(told)
    with pytest.raises(trails.InvalidInput):
        check_start(Settings(oidc=path), None)


@pytest.mark.parametrize(
    "origin", ["*", "null", "yasgui.example.org", "https://a.example/", "https://a.example/page", ""]
)
def test_a_site_that_is_no_origin_is_refused_before_the_server_starts(origin: str) -> None:
    with pytest.raises(trails.InvalidInput, match="a site is written https://name"):
        check_start(Settings(allowed_origins=("https://a.example:8443", origin)), None)
