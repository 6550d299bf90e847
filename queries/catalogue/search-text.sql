-- `candidates` are the numbers of the turns that the index finds; no value stands for all turns.
SELECT session_iri(s.id) AS home, t.place, k.role, k.author, content_term(t.text, k.form), turn_iri(s.id, t.place, t.digest)
FROM turns t JOIN sessions s ON s.number = t.session JOIN kinds k ON k.number = t.kind
WHERE (:candidates IS NULL OR t.number IN (SELECT value FROM json_each(:candidates)))
  AND holds_text(t.text, (SELECT value FROM json_each(:text)))
ORDER BY home, t.place
