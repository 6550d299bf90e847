"""What stands on pages of sessions: three sessions, one forked within what another inherits, and texts that would steer."""

from __future__ import annotations

from trails import Repository

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=https://evil.example/x onerror=alert(1)>",
    "-->]]></pre></p></li></ol></article><h1>not a heading</h1>",
    '" onmouseover="alert(1)',
    "\u202eright to left\u2066 and more",
    "a\x00b\x1b[31m",
    "&lt;b&gt; &amp; &#x41;",
    "</style><style>*{display:none}",
)


def grown(store: Repository) -> None:
    """plan: a b c; other leaves plan at 2 with x; deep leaves other at 1 (in what other inherits) with y."""
    plan = store.create(id="plan")
    for text in ("a", "b", "c"):
        plan.append("user", text)
    plan.persist()
    other = plan.fork(at=2, id="other")
    other.append("assistant", "x", model="m-1", usage={"input_tokens": 7, "output_tokens": 3})
    other.persist()
    deep = other.fork(at=1, id="deep")
    deep.append("user", "y")
    deep.persist()
