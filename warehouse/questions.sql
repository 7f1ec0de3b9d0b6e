-- How did ndcg@10 go, month by month?
SELECT date_trunc('month', logical_date)::DATE AS month, experiment, round(avg(mean), 4) AS mean,
    count(*) AS n_nights
FROM metric_history
WHERE measure = 'ndcg@10'
GROUP BY ALL
ORDER BY month, experiment;

-- Which night lost most against the night before it?
SELECT logical_date, experiment, round(change, 4) AS change, run_id
FROM metric_history
WHERE measure = 'ndcg@10' AND is_comparable
ORDER BY change
LIMIT 1;

-- Which queries lost most that night, and what do they ask?
WITH night AS (
    SELECT run_id, previous_run_id FROM latest_runs
    WHERE experiment = 'handbook' AND logical_date = DATE '2026-06-19'
)
SELECT change.query_id, query.text, change.baseline_value, change.value, change.delta
FROM night
JOIN query_deltas AS change
    ON change.run_id = night.run_id AND change.baseline_run_id = night.previous_run_id
JOIN runs AS run ON run.run_id = night.run_id
JOIN queries AS query
    ON query.benchmark_digest = run.benchmark_digest AND query.query_id = change.query_id
WHERE change.measure = 'ndcg@10'
ORDER BY change.delta, change.query_id
LIMIT 3;

-- What had changed that night?
SELECT name, before, after
FROM (
    SELECT
        [{'name': 'corpus', 'before': older.corpus_digest, 'after': newer.corpus_digest},
         {'name': 'benchmark', 'before': older.benchmark_digest, 'after': newer.benchmark_digest},
         {'name': 'chunks', 'before': older.chunks_digest, 'after': newer.chunks_digest},
         {'name': 'model', 'before': older.embedding_model, 'after': newer.embedding_model},
         {'name': 'configuration', 'before': older.config_digest, 'after': newer.config_digest},
         {'name': 'code', 'before': older.git_commit, 'after': newer.git_commit}] AS facts
    FROM latest_runs AS newer
    JOIN runs AS older ON older.run_id = newer.previous_run_id
    WHERE newer.experiment = 'handbook' AND newer.logical_date = DATE '2026-06-19'
), unnest(facts) AS fact(fact), LATERAL (
    SELECT fact.name AS name, fact.before AS before, fact.after AS after
)
WHERE before IS DISTINCT FROM after
ORDER BY name;

-- Which nights have no good run, and why?
SELECT calendar.night, experiment.name AS experiment,
    coalesce(
        max(run.status || ': ' || run.status_reason),
        max(event.kind || ' in ' || event.stage),
        'nothing started'
    ) AS why
FROM (
    SELECT unnest(generate_series(min(logical_date), max(logical_date), INTERVAL 1 DAY))::DATE
        AS night
    FROM runs
) AS calendar
CROSS JOIN (SELECT DISTINCT experiment AS name FROM runs) AS experiment
LEFT JOIN runs AS run
    ON run.experiment = experiment.name AND run.logical_date = calendar.night
LEFT JOIN events AS event
    ON event.kind = 'crashed' AND event.occurred_at::DATE = calendar.night
    AND (event.details ->> '$.experiment') = experiment.name
WHERE NOT EXISTS (
    SELECT 1 FROM latest_runs AS good
    WHERE good.experiment = experiment.name AND good.logical_date = calendar.night
)
GROUP BY ALL
ORDER BY night, experiment;

-- On which nights did values fail, and how far could the mean be off?
SELECT logical_date, measure, n_failed, mean, low, high
FROM metric_history
WHERE experiment = 'handbook' AND n_failed > 0
ORDER BY logical_date, measure;

-- Which queries found nothing in the first five, every night of the last quarter?
SELECT value.query_id, count(*) AS n_nights
FROM latest_runs AS run
JOIN newest_query_metrics AS value ON value.run_id = run.run_id
WHERE run.experiment = 'handbook' AND value.measure = 'hit@5'
    AND run.logical_date > (SELECT max(logical_date) FROM runs) - 90
GROUP BY value.query_id
HAVING max(value.value) = 0
ORDER BY value.query_id;

-- How do the kinds of queries compare on the last night?
SELECT tag, count(*) AS n_queries, round(avg(value), 4) AS mean
FROM (
    SELECT unnest(query.tags) AS tag, value.value
    FROM newest_query_metrics AS value
    JOIN runs AS run ON run.run_id = value.run_id
    JOIN queries AS query
        ON query.benchmark_digest = run.benchmark_digest AND query.query_id = value.query_id
    WHERE value.measure = 'ndcg@10'
        AND value.run_id = (
            SELECT run_id FROM latest_runs WHERE experiment = 'handbook'
            ORDER BY logical_date DESC LIMIT 1
        )
)
GROUP BY tag
ORDER BY mean, tag;

-- What did each quarter cost, and how much was reused?
SELECT date_trunc('quarter', logical_date)::DATE AS quarter, sum(n_calls)::BIGINT AS n_calls,
    sum(n_reused)::BIGINT AS n_reused, round(sum(cost), 2) AS cost, any_value(currency) AS currency,
    round(sum(n_cached) / sum(n_stages), 4) AS share_of_stages_reused
FROM cost_by_run
GROUP BY quarter
ORDER BY quarter;

-- How often was each experiment the best of its night?
SELECT experiment, count(*) FILTER (WHERE place = 1) AS n_best, count(*) AS n_nights
FROM leaderboard
WHERE measure = 'ndcg@10'
GROUP BY experiment
ORDER BY n_best DESC, experiment;
