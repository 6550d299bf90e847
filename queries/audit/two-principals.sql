-- What each session's own turns say is counted once; of a session that a fork cuts, what stands below the cut.
WITH RECURSIVE line (session, owner, ends) AS (
  SELECT number, number, 1 << 62 FROM sessions WHERE live
  UNION
  SELECT l.session, p.number, min(l.ends, o.starts_at)
  FROM line l JOIN sessions o ON o.number = l.owner JOIN sessions p ON p.id = o.parent
),
part AS (
  SELECT l.session, l.owner, o.starts_at AS starts, min(l.ends) AS ends
  FROM line l JOIN sessions o ON o.number = l.owner GROUP BY l.session, l.owner
),
own AS MATERIALIZED (
  SELECT t.session, k.author, count(*) AS turns, min(t.place) AS first, max(t.place) AS last
  FROM turns t JOIN kinds k ON k.number = t.kind JOIN sessions s ON s.number = t.session
  WHERE k.author GLOB 'urn:trails:principal:*' AND t.place >= s.starts_at GROUP BY t.session, k.author
),
piece AS MATERIALIZED (
  SELECT p.session, p.owner, p.starts, p.ends, w.author, w.turns, w.first, w.last
  FROM part p JOIN own w ON w.session = p.owner AND w.first < p.ends
),
several AS (SELECT session FROM piece GROUP BY session HAVING min(author) <> max(author)),
written AS (
  SELECT session, author, first,
    iif(last < ends, turns, (
      SELECT count(*) FROM turns t JOIN kinds k ON k.number = t.kind
      WHERE t.session = owner AND t.place >= starts AND t.place < ends AND k.author = piece.author
    )) AS turns,
    iif(last < ends, last, (
      SELECT max(t.place) FROM turns t JOIN kinds k ON k.number = t.kind
      WHERE t.session = owner AND t.place >= starts AND t.place < ends AND k.author = piece.author
    )) AS last
  FROM piece WHERE session IN several
)
SELECT session_iri(s.id) AS whose, principal_iri(s.principal), author, sum(turns), min(first) AS first, max(last)
FROM written JOIN sessions s ON s.number = written.session GROUP BY s.number, author ORDER BY whose, min(first), author
