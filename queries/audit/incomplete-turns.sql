WITH lacking AS MATERIALIZED (
  SELECT session_iri(s.id) AS whose, t.place, t.time, k.role, turn_lacks(k.role, t.more) AS model, turn_iri(s.id, t.place, t.digest) AS turn
  FROM turns t JOIN sessions s ON s.number = t.session JOIN kinds k ON k.number = t.kind WHERE t.flags & 2
)
SELECT whose, place, 'time' AS lacks, turn FROM lacking WHERE time IS NULL
UNION ALL
SELECT whose, place, model, turn FROM lacking WHERE model <> ''
ORDER BY 1, 2, 3
