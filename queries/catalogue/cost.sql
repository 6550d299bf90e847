-- A call that copies tell of, too, counts once: with the least that is told of it.
WITH again AS (SELECT DISTINCT digest FROM calls WHERE NOT counts),
merged AS (
  SELECT substr(min(rank || principal_iri(principal)), 2) AS whom, substr(min(rank || author), 2) AS author,
    substr(min(rank || model), 2) AS model, iif(count(cost), min(ifnull(cost, 0.0)), NULL) AS cost
  FROM calls WHERE digest IN again GROUP BY digest
),
priced AS (
  SELECT principal_iri(principal) AS whom, author, model, count(*) AS calls, cost
  FROM calls WHERE counts AND digest NOT IN again GROUP BY principal, author, model, cost
  UNION ALL SELECT whom, author, model, 1, cost FROM merged
)
SELECT whom, author, model, sum(calls), sum(iif(cost IS NULL, calls, 0)), decimal_sum(cost, calls)
FROM priced GROUP BY whom, author, model
HAVING :principal IS NULL OR whom IN (SELECT value FROM json_each(:principal))
ORDER BY whom, author, model
