-- A call that the next turn of its session answers is open only in a fork that was made between the two.
WITH RECURSIVE line (session, owner, ends) AS (
  SELECT number, number, 1 << 62 FROM sessions WHERE live
  UNION
  SELECT l.session, p.number, min(l.ends, o.starts_at)
  FROM line l JOIN sessions o ON o.number = l.owner JOIN sessions p ON p.id = o.parent
),
part AS MATERIALIZED (
  SELECT l.session, l.owner, o.starts_at AS starts, min(l.ends) AS ends
  FROM line l JOIN sessions o ON o.number = l.owner GROUP BY l.session, l.owner
),
unlike AS MATERIALIZED (
  SELECT c.* FROM tool_calls c WHERE NOT EXISTS (
    SELECT 1 FROM tool_answers a WHERE a.session = c.session AND a.id = c.id AND a.place = c.place + 1
  )
),
candidate AS (
  SELECT p.session AS transcript, c.* FROM part p JOIN unlike c ON c.session = p.owner AND c.place >= p.starts AND c.place < p.ends
  UNION
  SELECT p.session AS transcript, c.* FROM part p JOIN tool_calls c ON c.session = p.owner AND c.place = p.ends - 1
  WHERE c.place >= p.starts
)
SELECT session_iri(s.id) AS whose, c.place, c.name, c.id,
  EXISTS (
    SELECT 1 FROM tool_answers a
    WHERE a.call_session = c.session AND a.call_place = c.place AND a.call_position = c.position
  ),
  turn_iri(o.id, t.place, t.digest), turn_iri(o.id, t.place, t.digest) || '/call/' || c.position AS call
FROM candidate c JOIN sessions s ON s.number = c.transcript JOIN sessions o ON o.number = c.session JOIN turns t ON t.number = c.turn
WHERE NOT EXISTS (
  SELECT 1 FROM part p JOIN tool_answers a ON a.session = p.owner AND a.id = c.id
  WHERE p.session = c.transcript AND a.place > c.place AND a.place >= p.starts AND a.place < p.ends AND NOT EXISTS (
    SELECT 1 FROM part q JOIN tool_calls later ON later.session = q.owner AND later.id = c.id
    WHERE q.session = c.transcript AND later.place > c.place AND later.place < a.place AND later.place >= q.starts
      AND later.place < q.ends
  )
)
ORDER BY whose, c.place, call
