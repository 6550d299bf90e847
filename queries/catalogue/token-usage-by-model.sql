-- A call that copies tell of, too, counts once: with the least that is told of it.
WITH again AS (SELECT DISTINCT digest FROM calls WHERE NOT counts),
told AS (
  SELECT model, input, output, cache_read, cache_write, cost FROM calls WHERE counts AND digest NOT IN again
  UNION ALL
  SELECT substr(min(rank || model), 2),
    iif(count(input), min(ifnull(input, 0)), NULL), iif(count(output), min(ifnull(output, 0)), NULL),
    iif(count(cache_read), min(ifnull(cache_read, 0)), NULL), iif(count(cache_write), min(ifnull(cache_write, 0)), NULL),
    iif(count(cost), min(ifnull(cost, 0.0)), NULL)
  FROM calls WHERE digest IN again GROUP BY digest
),
priced AS (
  SELECT model, count(*) AS calls, sum(input IS NULL AND output IS NULL) AS silent, sum(input) AS input, sum(output) AS output, sum(cache_read) AS cache_read,
    sum(cache_write) AS cache_write, cost
  FROM told GROUP BY model, cost
)
SELECT model, sum(calls), sum(silent), sum(iif(cost IS NULL, calls, 0)), sum(input), sum(output), sum(cache_read), sum(cache_write), decimal_sum(cost, calls)
FROM priced GROUP BY model ORDER BY model
