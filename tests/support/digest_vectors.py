"""The published test vectors of the digest rules, computed from the rules as they are written, by `hashlib` alone.

`python -m tests.support.digest_vectors` writes `trails/integrity/digest-vectors.json` anew. Of Trails, only its place is used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from trails import integrity

FILE = Path(integrity.__file__).parent / "digest-vectors.json"
SALT = "000102030405060708090a0b0c0d0e0f"
GENESIS = hashlib.sha256(b"trails/genesis/1").hexdigest()


def over(tag: str, *fields: str) -> str:
    """Return SHA-256 over a tag and fields, each after its length as eight bytes, big-endian."""
    whole = tag.encode("utf-8")
    for field in fields:
        data = field.encode("utf-8")
        whole += len(data).to_bytes(8, "big") + data
    return hashlib.sha256(whole).hexdigest()


def _case(rule: str, tag: str, fields: dict[str, str], *, said: Any = None) -> dict[str, Any]:
    case: dict[str, Any] = {"rule": rule, "tag": tag, "fields": fields, "digest": over(tag, *fields.values())}
    return case if said is None else case | {"of": said}


def _salted(kind: str, text: str, salt: str = SALT) -> dict[str, Any]:
    return _case("salted", "trails/salted/1", {"kind": kind, "salt": salt, "text": text})


def _facts(said: dict[str, Any], canonical: str) -> dict[str, Any]:
    """Return the case of some facts, whose canonical JSON was written by hand."""
    assert json.loads(canonical) == said
    return _case("facts", "trails/facts/1", {"json": canonical}, said=said)


def _turn(before: str, index: int, said: tuple[str, str, str, str], content: str, facts: str) -> dict[str, Any]:
    branch, role, author, time = said
    fields = {"previous": before, "index": str(index), "branch": branch, "role": role, "author": author, "time": time}
    return _case("turn", "trails/turn/1", {**fields, "content": content, "facts": facts})


def _prompt(version: int, first: int, text: str) -> dict[str, Any]:
    said = over("trails/salted/1", "prompt", SALT, text)
    fields = {"version": str(version), "effective_from": str(first), "said": said}
    return _case("prompt", "trails/prompt/1", fields, said={"salt": SALT, "text": text})


def vectors() -> dict[str, Any]:
    """Return all cases, and a chain of three turns with a fork."""
    arguments = over("trails/salted/1", "arguments", SALT, '{"place":"Z\u00fcrich"}')
    meta = over("trails/salted/1", "meta", SALT, '{"k":[1]}')
    called = _facts(
        {"model": ["m-1", '{"input_tokens":3}', None], "calls": [["c1", "weather", arguments]], "meta": meta},
        f'{{"calls":[["c1","weather","{arguments}"]],"meta":"{meta}","model":["m-1","{{\\"input_tokens\\":3}}",null]}}',
    )
    answered = _facts({"results": [["c1", True]]}, '{"results":[["c1",true]]}')
    summary = _facts(
        {
            "compaction": {
                "summarised_through": 1,
                "first_kept": None,
                "tokens_before": 100,
                "tokens_after": None,
                "trigger": "manual",
                "summarised_from": 0,
                "previous_summary": "4-00112233445566aa",
                "request": over("trails/salted/1", "request", SALT, "Sum up"),
            },
            "source": ["aa", "ab"],
            "quote": [3, "ab" * 32],
            "result": [7, "cd" * 32],
        },
        '{"compaction":{"first_kept":null,"previous_summary":"4-00112233445566aa","request":"'
        + over("trails/salted/1", "request", SALT, "Sum up")
        + '","summarised_from":0,"summarised_through":1,"tokens_after":null,"tokens_before":100,"trigger":"manual"},'
        f'"quote":[3,"{"ab" * 32}"],"result":[7,"{"cd" * 32}"],"source":["aa","ab"]}}',
    )
    told = _facts(
        {
            "model": ["m-1", None, None],
            "called": {
                "started": 1767323044000000,
                "ended": 1767323045000000,
                "provider": "acme",
                "prompt": 2,
                "through": 5,
                "summary": 3,
                "left_out": [4, 5],
            },
        },
        '{"called":{"ended":1767323045000000,"left_out":[4,5],"prompt":2,"provider":"acme","started":1767323044000000,'
        '"summary":3,"through":5},"model":["m-1",null,null]}',
    )
    ran = {"approved_by": "principal:Ann B", "ended": 1767323046000000, "outcome": "completed", "server": "files"}
    refused = {"outcome": "refused", "refused_by": "agent:guard"}
    tools = _facts(
        {
            "results": [
                ["c1", False, {**ran, "started": 1767323045000000, "tool": "read file", "version": "1.2"}],
                ["c2", True, refused],
            ]
        },
        '{"results":[["c1",false,{"approved_by":"principal:Ann B","ended":1767323046000000,"outcome":"completed",'
        '"server":"files","started":1767323045000000,"tool":"read file","version":"1.2"}],'
        '["c2",true,{"outcome":"refused","refused_by":"agent:guard"}]]}',
    )
    taken = _facts({"taken": [7, "ef" * 32]}, f'{{"taken":[7,"{"ef" * 32}"]}}')
    carried = [over("trails/salted/1", "payload", SALT, hashlib.sha256(data).hexdigest()) for data in (b"{}", b"")]
    payloads = _facts(
        {"payloads": [["state", "application/json", 2, carried[0]], [None, "application/octet-stream", 0, carried[1]]]},
        f'{{"payloads":[["state","application/json",2,"{carried[0]}"],[null,"application/octet-stream",0,"{carried[1]}"]]}}',
    )
    # 2026-01-02T03:04:05.678901Z: `date -ud 2026-01-02T03:04:05 +%s` and the microseconds
    time, early = "1767323045678901", "-1000000"
    content = [_salted("text", "Plan a trip"), _salted("json", '[{"type":"text","text":"\u96ea \U0001f600"}]')]
    first = _turn(GENESIS, 0, ("main", "user", "principal:Ann B", time), content[0]["digest"], "")
    second = _turn(
        first["digest"], 1, ("main", "assistant", "agent:planner", ""), content[1]["digest"], called["digest"]
    )
    third = _turn(
        second["digest"], 2, ("main", "tool", "agent:planner", early), content[0]["digest"], answered["digest"]
    )
    of_tool = ("main", "tool", "tool:read%20file/files/1.2", early)
    fourth = _turn(third["digest"], 3, of_tool, content[0]["digest"], tools["digest"])
    fork = _turn(second["digest"], 2, ("other", "user", "principal:bob", time), content[0]["digest"], "")
    standing = _case("standing", "trails/stands/1", {"turn": second["digest"], "left": answered["digest"]})
    string, double = "http://www.w3.org/2001/XMLSchema#string", "http://www.w3.org/2001/XMLSchema#double"
    said = ("https://w3id.org/trails#scoreName", "tone", string, "https://w3id.org/trails#scoreValue", "0.5", double)
    names = ("property 1", "text 1", "datatype 1", "property 2", "text 2", "datatype 2")
    score = _case("score", "trails/score/1", dict(zip(names, said, strict=True)))
    texts = [_salted(kind, "x") for kind in ("arguments", "meta", "request", "prompt", "note", "payload")]
    return {
        "format": "trails-digest-vectors/1",
        "rules": "digest = hex(SHA-256(tag, then of each field: its length as 8 bytes big-endian, its UTF-8 bytes))",
        "genesis": GENESIS,
        "cases": [
            *(*content, _salted("text", "", ""), *texts, called, answered, summary, told, tools, taken, payloads),
            *(first, second, third, fourth, fork, standing, _prompt(1, 0, "Be brief"), _prompt(2, 5, ""), score),
        ],
        "chain": [each["digest"] for each in (first, second, third)],
        "fork": {
            "at": 2,
            "head_of_parent": second["digest"],
            "chain": [each["digest"] for each in (first, second, fork)],
        },
    }


def text() -> str:
    """Return the file's text."""
    return json.dumps(vectors(), indent=2, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
