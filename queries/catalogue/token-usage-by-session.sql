-- A call that copies tell of, too, counts once: with the least that is told of it.
WITH again AS (SELECT DISTINCT digest FROM calls WHERE NOT counts),
merged AS (
  SELECT substr(min(rank || session_iri(home)), 2) AS home,
    iif(count(input), min(ifnull(input, 0)), NULL) AS input, iif(count(output), min(ifnull(output, 0)), NULL) AS output,
    iif(count(cache_read), min(ifnull(cache_read, 0)), NULL) AS cache_read,
    iif(count(cache_write), min(ifnull(cache_write, 0)), NULL) AS cache_write, iif(count(cost), min(ifnull(cost, 0.0)), NULL) AS cost
  FROM calls WHERE digest IN again GROUP BY digest
),
priced AS (
  SELECT session_iri(home) AS home, count(*) AS calls, sum(input IS NULL AND output IS NULL) AS silent, sum(input) AS input, sum(output) AS output, sum(cache_read) AS cache_read,
    sum(cache_write) AS cache_write, cost
  FROM calls WHERE counts AND digest NOT IN again GROUP BY calls.home, cost
  UNION ALL SELECT home, 1, input IS NULL AND output IS NULL, input, output, cache_read, cache_write, cost FROM merged
)
SELECT home, sum(calls), sum(silent), sum(iif(cost IS NULL, calls, 0)), sum(input), sum(output), sum(cache_read), sum(cache_write), decimal_sum(cost, calls)
FROM priced GROUP BY home ORDER BY home
