-- LLM calls, comparisons and baselines; what a run cost, its tags, and the texts of its chunks.

CREATE TABLE llm_calls (
    run_id VARCHAR NOT NULL,
    call_key VARCHAR NOT NULL,
    query_id VARCHAR,
    purpose VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    parameters JSON,
    prompt_version VARCHAR,
    sample VARCHAR NOT NULL,
    is_reused BOOLEAN NOT NULL,
    status VARCHAR NOT NULL,
    message VARCHAR,
    n_tries INTEGER NOT NULL,
    prompt_tokens BIGINT,
    completion_tokens BIGINT,
    cost DOUBLE,
    currency VARCHAR,
    prices_of DATE,
    started_at TIMESTAMPTZ,
    seconds DOUBLE
);
COMMENT ON TABLE llm_calls IS 'One question to an LLM, asked by a run or reused by it';
COMMENT ON COLUMN llm_calls.run_id IS 'The run';
COMMENT ON COLUMN llm_calls.call_key IS 'Digest of endpoint, model, parameters, messages, schema and sample: equal keys are one stored call';
COMMENT ON COLUMN llm_calls.query_id IS 'The query that it was made for';
COMMENT ON COLUMN llm_calls.purpose IS 'summary, key_phrases, questions, answers or anchor';
COMMENT ON COLUMN llm_calls.endpoint IS 'Where it went, without credentials';
COMMENT ON COLUMN llm_calls.model IS 'The model asked';
COMMENT ON COLUMN llm_calls.parameters IS 'Temperature, seed and the like';
COMMENT ON COLUMN llm_calls.prompt_version IS 'Version of the prompt file';
COMMENT ON COLUMN llm_calls.sample IS '0, the number of the repeat, or anchor/<logical_date>';
COMMENT ON COLUMN llm_calls.is_reused IS 'Whether a stored answer was used: nothing was paid';
COMMENT ON COLUMN llm_calls.status IS 'answered, or why not';
COMMENT ON COLUMN llm_calls.message IS 'A sentence; NULL when answered';
COMMENT ON COLUMN llm_calls.n_tries IS 'How often it was sent; 0: reused';
COMMENT ON COLUMN llm_calls.prompt_tokens IS 'As the endpoint counted; NULL: it did not say';
COMMENT ON COLUMN llm_calls.completion_tokens IS 'As the endpoint counted; NULL: it did not say';
COMMENT ON COLUMN llm_calls.cost IS 'Money; NULL: the price is not known';
COMMENT ON COLUMN llm_calls.currency IS 'Currency of the price';
COMMENT ON COLUMN llm_calls.prices_of IS 'Date of the price table';
COMMENT ON COLUMN llm_calls.started_at IS 'When it was first sent, UTC';
COMMENT ON COLUMN llm_calls.seconds IS 'Elapsed time, waiting included';

CREATE TABLE comparisons (
    comparison_id VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    baseline VARCHAR NOT NULL,
    baseline_run_ids VARCHAR[] NOT NULL,
    measure VARCHAR NOT NULL,
    contract_version INTEGER NOT NULL,
    tag VARCHAR,
    is_gated BOOLEAN NOT NULL,
    verdict VARCHAR NOT NULL,
    reason VARCHAR,
    n_pairs BIGINT NOT NULL,
    n_better BIGINT NOT NULL,
    n_worse BIGINT NOT NULL,
    n_unchanged BIGINT NOT NULL,
    mean DOUBLE,
    baseline_mean DOUBLE,
    difference DOUBLE,
    low DOUBLE,
    high DOUBLE,
    p_value DOUBLE,
    p_adjusted DOUBLE,
    effect_size DOUBLE,
    smallest_detectable DOUBLE,
    delta DOUBLE,
    alpha DOUBLE,
    seed BIGINT,
    compared_at TIMESTAMPTZ NOT NULL,
    details JSON
);
COMMENT ON TABLE comparisons IS 'What one measure of a run says against a baseline';
COMMENT ON COLUMN comparisons.comparison_id IS 'Shared by the measures and slices of one comparison';
COMMENT ON COLUMN comparisons.run_id IS 'The run';
COMMENT ON COLUMN comparisons.baseline IS 'previous, pinned, mean or run';
COMMENT ON COLUMN comparisons.baseline_run_ids IS 'The run or runs that it was compared with';
COMMENT ON COLUMN comparisons.measure IS 'The measure';
COMMENT ON COLUMN comparisons.contract_version IS 'Contract that both sides'' values were computed under';
COMMENT ON COLUMN comparisons.tag IS 'Slice of the queries; NULL: all';
COMMENT ON COLUMN comparisons.is_gated IS 'Whether the verdict decides about the night';
COMMENT ON COLUMN comparisons.verdict IS 'better, worse, same, not enough evidence or not comparable';
COMMENT ON COLUMN comparisons.reason IS 'Why not comparable or not enough evidence';
COMMENT ON COLUMN comparisons.n_pairs IS 'Queries with a value on both sides';
COMMENT ON COLUMN comparisons.n_better IS 'Of which better than the baseline';
COMMENT ON COLUMN comparisons.n_worse IS 'Of which worse';
COMMENT ON COLUMN comparisons.n_unchanged IS 'Of which equal';
COMMENT ON COLUMN comparisons.mean IS 'Mean over the pairs';
COMMENT ON COLUMN comparisons.baseline_mean IS 'Mean of the baseline over the pairs';
COMMENT ON COLUMN comparisons.difference IS 'mean minus baseline_mean';
COMMENT ON COLUMN comparisons.low IS 'Lower end of the bootstrap interval of the difference';
COMMENT ON COLUMN comparisons.high IS 'Upper end of the bootstrap interval of the difference';
COMMENT ON COLUMN comparisons.p_value IS 'Paired randomisation test';
COMMENT ON COLUMN comparisons.p_adjusted IS 'Adjusted for the family of tests';
COMMENT ON COLUMN comparisons.effect_size IS 'Standardised mean difference';
COMMENT ON COLUMN comparisons.smallest_detectable IS 'Smallest difference that this benchmark could have detected';
COMMENT ON COLUMN comparisons.delta IS 'Smallest effect that matters, as configured';
COMMENT ON COLUMN comparisons.alpha IS 'Level of the test, as configured';
COMMENT ON COLUMN comparisons.seed IS 'Seed of the resampling';
COMMENT ON COLUMN comparisons.compared_at IS 'When, UTC';
COMMENT ON COLUMN comparisons.details IS 'What differs between the runs, and more';

CREATE TABLE baselines (
    baseline_id VARCHAR NOT NULL,
    experiment VARCHAR NOT NULL,
    suite VARCHAR,
    run_id VARCHAR NOT NULL,
    accepted_at TIMESTAMPTZ NOT NULL,
    author VARCHAR NOT NULL,
    reason VARCHAR NOT NULL
);
COMMENT ON TABLE baselines IS 'Runs that somebody accepted as what later nights are compared with';
COMMENT ON COLUMN baselines.baseline_id IS 'Identifies the decision';
COMMENT ON COLUMN baselines.experiment IS 'The experiment';
COMMENT ON COLUMN baselines.suite IS 'The suite; NULL: every suite';
COMMENT ON COLUMN baselines.run_id IS 'The run that was accepted';
COMMENT ON COLUMN baselines.accepted_at IS 'When, UTC: the newest decision holds';
COMMENT ON COLUMN baselines.author IS 'Who';
COMMENT ON COLUMN baselines.reason IS 'Why';

CREATE VIEW cost_by_run AS
SELECT
    run.run_id, run.experiment, run.logical_date, run.seconds, run.cpu_seconds,
    run.peak_memory_bytes,
    coalesce(stage.n_stages, 0) AS n_stages, coalesce(stage.n_cached, 0) AS n_cached,
    coalesce(calls.n_calls, 0) AS n_calls, coalesce(calls.n_reused, 0) AS n_reused,
    calls.prompt_tokens, calls.completion_tokens, calls.cost, calls.currency,
    coalesce(calls.n_unpriced, 0) AS n_unpriced
FROM runs AS run
LEFT JOIN (
    SELECT run_id, count(*) AS n_stages, count(*) FILTER (WHERE cached) AS n_cached
    FROM stages GROUP BY run_id
) AS stage ON stage.run_id = run.run_id
LEFT JOIN (
    SELECT run_id, max(currency) AS currency,
        count(*) FILTER (WHERE NOT is_reused) AS n_calls,
        count(*) FILTER (WHERE is_reused) AS n_reused,
        sum(prompt_tokens) FILTER (WHERE NOT is_reused)::BIGINT AS prompt_tokens,
        sum(completion_tokens) FILTER (WHERE NOT is_reused)::BIGINT AS completion_tokens,
        sum(cost) FILTER (WHERE NOT is_reused) AS cost,
        count(*) FILTER (WHERE NOT is_reused AND cost IS NULL) AS n_unpriced
    FROM llm_calls GROUP BY run_id
) AS calls ON calls.run_id = run.run_id;
COMMENT ON VIEW cost_by_run IS 'What a run cost: time, memory, stages reused, LLM calls, tokens and money';
COMMENT ON COLUMN cost_by_run.n_stages IS 'Stages of the run';
COMMENT ON COLUMN cost_by_run.n_cached IS 'Stages whose stored result was reused';
COMMENT ON COLUMN cost_by_run.n_calls IS 'LLM calls that were sent';
COMMENT ON COLUMN cost_by_run.n_reused IS 'LLM calls whose stored answer was reused';
COMMENT ON COLUMN cost_by_run.prompt_tokens IS 'Tokens sent, as the endpoints counted';
COMMENT ON COLUMN cost_by_run.completion_tokens IS 'Tokens received, as the endpoints counted';
COMMENT ON COLUMN cost_by_run.cost IS 'Money for the calls that were sent and whose price is known';
COMMENT ON COLUMN cost_by_run.n_unpriced IS 'Calls that were sent and whose price is not known';

CREATE VIEW run_tags AS
SELECT run_id, message AS tag, author, occurred_at AS tagged_at
FROM events
WHERE kind IN ('tag', 'untag')
QUALIFY row_number() OVER (
    PARTITION BY run_id, message ORDER BY occurred_at DESC, event_id DESC
) = 1 AND kind = 'tag';
COMMENT ON VIEW run_tags IS 'The tags that runs carry now';
COMMENT ON COLUMN run_tags.tag IS 'The tag';
COMMENT ON COLUMN run_tags.tagged_at IS 'When, UTC';

-- Publishing replaces this view by one over the artifact store, which is a folder of its home.
CREATE VIEW chunk_texts AS
SELECT
    NULL::VARCHAR AS chunks_digest, NULL::VARCHAR AS chunk_id, NULL::VARCHAR AS doc_id,
    NULL::BIGINT AS "start", NULL::BIGINT AS "end", NULL::VARCHAR AS text, NULL::VARCHAR AS title
WHERE false;
COMMENT ON VIEW chunk_texts IS 'The texts of the chunks, read from the artifact store; name one runs.chunks_digest: WHERE chunks_digest = …';
COMMENT ON COLUMN chunk_texts.chunks_digest IS 'The chunking that the chunk is of: runs.chunks_digest';
COMMENT ON COLUMN chunk_texts.chunk_id IS 'The chunk: rankings.chunk_id';
COMMENT ON COLUMN chunk_texts.doc_id IS 'Its document';
COMMENT ON COLUMN chunk_texts."start" IS 'First character of the chunk in its document';
COMMENT ON COLUMN chunk_texts."end" IS 'Character after the last one';
COMMENT ON COLUMN chunk_texts.text IS 'The text';
COMMENT ON COLUMN chunk_texts.title IS 'The title that stands before it for the model; NULL: none';

COMMENT ON TABLE migrations IS 'What made and changed these tables';
COMMENT ON COLUMN migrations.version IS 'Number of the migration';
COMMENT ON COLUMN migrations.name IS 'Its file';
COMMENT ON COLUMN migrations.checksum IS 'sha256 of its text: an edited migration is refused';
COMMENT ON COLUMN migrations.applied_at IS 'When it ran, UTC';
COMMENT ON COLUMN migrations.rankhouse_version IS 'Version of Rankhouse that ran it';
COMMENT ON COLUMN migrations.duckdb_version IS 'Version of DuckDB that ran it';
