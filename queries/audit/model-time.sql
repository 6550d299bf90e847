-- A call that copies tell of, too, counts once: with the least that is told of it.
WITH again AS (SELECT DISTINCT digest FROM calls WHERE NOT counts),
merged AS (
  SELECT substr(min(rank || principal_iri(principal)), 2) AS whom, min(provider) AS provider, min(model) AS model,
    iif(count(input), min(ifnull(input, 0)), NULL) AS input, iif(count(output), min(ifnull(output, 0)), NULL) AS output,
    iif(count(cost), min(ifnull(cost, 0.0)), NULL) AS cost, min(ended) - min(began) AS took
  FROM calls WHERE digest IN again GROUP BY digest
),
priced AS (
  SELECT principal_iri(principal) AS whom, provider, model, count(*) AS calls, sum(input IS NULL AND output IS NULL) AS silent,
    count(ended - began) AS timed,
    sum(ended - began) AS took, sum(input) AS input, sum(output) AS output, cost
  FROM calls WHERE counts AND digest NOT IN again GROUP BY principal, provider, model, cost
  UNION ALL SELECT whom, provider, model, 1, input IS NULL AND output IS NULL, took IS NOT NULL, took, input, output, cost FROM merged
)
SELECT whom, provider, model, sum(calls), sum(silent), sum(iif(cost IS NULL, calls, 0)), sum(timed),
  iif(sum(timed), seconds(sum(took)), NULL), sum(input), sum(output),
  decimal_sum(cost, calls)
FROM priced GROUP BY whom, provider, model
HAVING :principal IS NULL OR whom IN (SELECT value FROM json_each(:principal))
ORDER BY whom, provider, model
