-- The views: the stable SQL interface. Tables may change by migration, these keep their columns.

CREATE VIEW latest_runs AS
SELECT * FROM (
    SELECT *,
        lag(run_id) OVER (PARTITION BY experiment ORDER BY logical_date) AS previous_run_id
    FROM (
        SELECT * FROM runs
        WHERE status <> 'failed'
        QUALIFY row_number() OVER (
            PARTITION BY experiment, logical_date
            ORDER BY CASE status WHEN 'completed' THEN 0 ELSE 1 END, run_id DESC
        ) = 1
    )
);
COMMENT ON VIEW latest_runs IS 'The last good run of each experiment and night: completed before degraded, then the newest; with the columns of runs';
COMMENT ON COLUMN latest_runs.previous_run_id IS 'The good run of the night before it, of the same experiment';

CREATE VIEW newest_run_metrics AS
SELECT * FROM run_metrics
QUALIFY row_number() OVER (
    PARTITION BY run_id, measure ORDER BY contract_version DESC
) = 1;
COMMENT ON VIEW newest_run_metrics IS 'run_metrics under the newest contract version of each run and measure';

CREATE VIEW newest_query_metrics AS
SELECT values_of.run_id, values_of.query_id, values_of.measure, values_of.contract_version,
    values_of.value, values_of.null_reason, newest.comparability_key
FROM query_metrics AS values_of
JOIN newest_run_metrics AS newest
    ON newest.run_id = values_of.run_id
    AND newest.measure = values_of.measure
    AND newest.contract_version = values_of.contract_version;
COMMENT ON VIEW newest_query_metrics IS 'query_metrics under the newest contract version of each run and measure';
COMMENT ON COLUMN newest_query_metrics.comparability_key IS 'Only values with equal keys may be compared';

CREATE VIEW metric_history AS
SELECT
    run.experiment, metric.measure, run.logical_date, run.run_id, run.attempt, run.status,
    metric.mean,
    CASE WHEN lag(metric.comparability_key) OVER nights = metric.comparability_key
        THEN metric.mean - lag(metric.mean) OVER nights END AS change,
    coalesce(lag(metric.comparability_key) OVER nights = metric.comparability_key, false)
        AS is_comparable,
    metric.n_scored, metric.n_queries, metric.n_lost, metric.n_failed, metric.low, metric.high,
    metric.contract_version, metric.comparability_key
FROM latest_runs AS run
JOIN newest_run_metrics AS metric ON metric.run_id = run.run_id
WINDOW nights AS (PARTITION BY run.experiment, metric.measure ORDER BY run.logical_date);
COMMENT ON VIEW metric_history IS 'Each measure of each experiment, night by night';
COMMENT ON COLUMN metric_history.change IS 'mean minus the mean of the night before; NULL: none, or not comparable';
COMMENT ON COLUMN metric_history.is_comparable IS 'Whether the night before had the same comparability_key';

CREATE VIEW leaderboard AS
SELECT
    run.logical_date, metric.measure,
    rank() OVER (
        PARTITION BY run.logical_date, metric.measure, metric.comparability_key
        ORDER BY metric.mean DESC NULLS LAST
    ) AS place,
    run.experiment, metric.mean, metric.n_scored, metric.n_queries, metric.n_lost,
    metric.n_failed, metric.low, metric.high, run.run_id, run.status, metric.comparability_key
FROM latest_runs AS run
JOIN newest_run_metrics AS metric ON metric.run_id = run.run_id;
COMMENT ON VIEW leaderboard IS 'The experiments of one night in order of a measure; only equal comparability_keys share an order';
COMMENT ON COLUMN leaderboard.place IS 'From 1, among the runs that may be compared; equal means share a place';

CREATE VIEW query_deltas AS
SELECT
    ours.run_id, theirs.run_id AS baseline_run_id, ours.measure, ours.query_id,
    ours.value, theirs.value AS baseline_value, ours.value - theirs.value AS delta,
    ours.null_reason, theirs.null_reason AS baseline_null_reason, ours.comparability_key
FROM newest_query_metrics AS ours
JOIN newest_query_metrics AS theirs
    ON theirs.query_id = ours.query_id
    AND theirs.measure = ours.measure
    AND theirs.comparability_key = ours.comparability_key
    AND theirs.run_id <> ours.run_id;
COMMENT ON VIEW query_deltas IS 'What changed for each query between two runs; name both: WHERE run_id = … AND baseline_run_id = …';
COMMENT ON COLUMN query_deltas.baseline_run_id IS 'The run that it is compared with';
COMMENT ON COLUMN query_deltas.baseline_value IS 'The value in that run';
COMMENT ON COLUMN query_deltas.delta IS 'value minus baseline_value; NULL when one of them is NULL';
COMMENT ON COLUMN query_deltas.baseline_null_reason IS 'Why the baseline has no value';

CREATE VIEW question_flips AS
SELECT
    ours.run_id, theirs.run_id AS baseline_run_id, ours.query_id, ours.question_index,
    ours.key_phrase, ours.question, ours.answer, theirs.answer AS baseline_answer,
    ours.reason, theirs.reason AS baseline_reason
FROM summary_questions AS ours
JOIN summary_questions AS theirs
    ON theirs.query_id = ours.query_id
    AND theirs.question = ours.question
    AND theirs.run_id <> ours.run_id
WHERE ours.answer IS DISTINCT FROM theirs.answer;
COMMENT ON VIEW question_flips IS 'Questions whose answer differs between two runs; name both: WHERE run_id = … AND baseline_run_id = …';
COMMENT ON COLUMN question_flips.baseline_run_id IS 'The run that it is compared with';
COMMENT ON COLUMN question_flips.baseline_answer IS 'The answer in that run';
COMMENT ON COLUMN question_flips.baseline_reason IS 'Why that answer';

CREATE VIEW null_reasons AS
SELECT
    run_id, measure, contract_version, null_reason, count(*) AS n_queries,
    list(query_id ORDER BY query_id) AS query_ids
FROM newest_query_metrics
WHERE null_reason IS NOT NULL
GROUP BY run_id, measure, contract_version, null_reason;
COMMENT ON VIEW null_reasons IS 'How many queries of a run have no value of a measure, why, and which';
COMMENT ON COLUMN null_reasons.n_queries IS 'Queries without a value for this reason';
COMMENT ON COLUMN null_reasons.query_ids IS 'Which ones';
