-- What the runs of a grid are compared on; latest_runs keeps the columns of runs.

ALTER TABLE runs ADD COLUMN primary_measure VARCHAR;
COMMENT ON COLUMN runs.primary_measure IS 'Measure that the runs of its grid are compared on; NULL: not part of a grid, or before it was stored';

CREATE OR REPLACE VIEW latest_runs AS
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
