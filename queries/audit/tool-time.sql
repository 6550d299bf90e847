-- An answer that copies bring, too, counts once: by the digest of the turn that brought it first.
WITH told AS (
  SELECT substr(min(a.rank || s.principal), 2) AS principal, max(ifnull(c.name, '')) AS tool, max(a.failed) AS failed,
    max(a.refused) AS refused, min(a.began) AS began, min(a.ended) AS ended
  FROM tool_answers a JOIN sessions s ON s.number = a.session
  LEFT JOIN tool_calls c ON c.session = a.call_session AND c.place = a.call_place AND c.position = a.call_position
  WHERE s.live GROUP BY a.digest, a.id
)
SELECT principal_iri(principal) AS whom, tool, count(*), sum(failed), sum(refused), count(ended - began),
  iif(count(ended - began), seconds(sum(ended - began)), NULL)
FROM told GROUP BY whom, tool
HAVING :principal IS NULL OR whom IN (SELECT value FROM json_each(:principal))
ORDER BY whom, tool
