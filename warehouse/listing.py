"""Named SQL of the list of runs: their first measures, tags, and what changed before each."""

from __future__ import annotations

from warehouse.queries import NamedQuery

RUNS = NamedQuery(
    "runs",
    (
        "run_id",
        "experiment",
        "logical_date",
        "attempt",
        "status",
        "started_at",
        "seconds",
        "measures",
        "changes",
        "tags",
    ),
    """\
WITH run AS (
    SELECT * FROM (
        SELECT run_id, experiment, logical_date, attempt, status, started_at, seconds, grid_id,
            config, lag(config) OVER (PARTITION BY experiment ORDER BY run_id) AS config_before,
            from_json(config -> '$.measures', '["VARCHAR"]') AS configured,
            CASE WHEN {grid} IS NOT NULL
                THEN list_position(configured, primary_measure) END AS place,
            CASE WHEN place IS NULL THEN configured
                ELSE [primary_measure] || configured[:place - 1] || configured[place + 1:]
                END AS names
        FROM (
            SELECT * FROM runs
            -- A copy that an older version published has no such column.
            UNION ALL BY NAME SELECT NULL::VARCHAR AS primary_measure WHERE false
        )
        UNION ALL BY NAME
        SELECT run_id, details ->> '$.experiment' AS experiment, 'crashed' AS status,
            occurred_at AS started_at
        FROM events
        WHERE kind = 'crashed' AND run_id NOT IN (SELECT run_id FROM runs)
    )
    WHERE ({experiment} IS NULL OR experiment = {experiment})
        AND ({grid} IS NULL OR grid_id = {grid})
        AND ({tag} IS NULL OR run_id IN (SELECT run_id FROM run_tags WHERE tag = {tag}))
    ORDER BY run_id DESC
    LIMIT {limit}
), setting AS (
    SELECT run.run_id, is_before, replace(leaf.fullkey, '$.', '') AS name,
        leaf.value ->> '$' AS value
    FROM (
        SELECT run_id, false AS is_before, config FROM run
        UNION ALL
        SELECT run_id, true, config_before FROM run
    ) AS run, json_tree(run.config) AS leaf
    WHERE leaf.type NOT IN ('OBJECT', 'NULL') AND leaf.fullkey NOT LIKE '%[%'
), change AS (
    SELECT run_id, name, now AS value
    FROM (
        SELECT run_id, name, any_value(value) FILTER (WHERE NOT is_before) AS now,
            any_value(value) FILTER (WHERE is_before) AS before
        FROM setting
        GROUP BY run_id, name
    )
    WHERE now IS DISTINCT FROM before
)
SELECT run.run_id, run.experiment, run.logical_date, run.attempt, run.status, run.started_at,
    run.seconds,
    (
        SELECT string_agg(metric.measure || ' ' || coalesce(printf('%.4f', metric.mean), '–'),
            '  ' ORDER BY list_position(run.names, metric.measure))
        FROM newest_run_metrics AS metric
        WHERE metric.run_id = run.run_id
            AND list_position(run.names, metric.measure) <= {n_measures}
    ) AS measures,
    (
        SELECT string_agg(change.name || '=' || coalesce(change.value, '–'), ' '
            ORDER BY change.name IN ('benchmark.path', 'corpus.path', 'measures'), change.name)
        FROM change WHERE change.run_id = run.run_id AND run.config_before IS NOT NULL
    ) AS changes,
    (
        SELECT string_agg(tagged.tag, ', ' ORDER BY tagged.tag)
        FROM run_tags AS tagged WHERE tagged.run_id = run.run_id
    ) AS tags
FROM run
ORDER BY run.run_id DESC""",
)
