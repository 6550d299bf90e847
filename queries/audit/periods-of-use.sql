WITH turn AS (
  SELECT iif(k.author GLOB 'urn:trails:principal:*', k.author, principal_iri(s.principal)) AS who, t.time
  FROM turns t JOIN sessions s ON s.number = t.session JOIN kinds k ON k.number = t.kind WHERE s.live AND NOT t.flags & 1
),
step AS (
  SELECT who, time,
    time - lag(time) OVER (PARTITION BY who ORDER BY time) > 1000000 * ifnull((SELECT value FROM json_each(:gap)), 1800) AS begins
  FROM turn WHERE time IS NOT NULL
),
timed AS (
  SELECT who, time, sum(ifnull(begins, 0)) OVER (PARTITION BY who ORDER BY time ROWS UNBOUNDED PRECEDING) AS sitting FROM step
),
period AS (
  SELECT who, min(time) AS first, max(time) AS last, count(*) AS turns FROM timed GROUP BY who, sitting
  UNION ALL
  SELECT who, NULL, NULL, count(*) FROM turn WHERE time IS NULL GROUP BY who
)
SELECT who, first, last, turns FROM period
WHERE :principal IS NULL OR who IN (SELECT value FROM json_each(:principal)) ORDER BY who, first
