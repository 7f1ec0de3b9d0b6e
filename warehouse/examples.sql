-- latest_runs: the last good run of each night this month
SELECT experiment, logical_date, status, run_id FROM latest_runs
WHERE logical_date >= date_trunc('month', current_date)
ORDER BY experiment, logical_date;

-- metric_history: a measure, night by night
SELECT logical_date, mean, change, n_scored, n_queries FROM metric_history
WHERE experiment = 'handbook' AND measure = 'ndcg@10'
ORDER BY logical_date;

-- leaderboard: the last night
SELECT place, experiment, mean, low, high FROM leaderboard
WHERE measure = 'ndcg@10' AND logical_date = (SELECT max(logical_date) FROM latest_runs)
ORDER BY comparability_key, place;

-- query_deltas: what the last night changed
SELECT query_id, baseline_value, value, delta FROM query_deltas
WHERE measure = 'ndcg@10'
    AND run_id = (SELECT run_id FROM latest_runs ORDER BY run_id DESC LIMIT 1)
    AND baseline_run_id = (SELECT previous_run_id FROM latest_runs ORDER BY run_id DESC LIMIT 1)
ORDER BY delta;

-- question_flips: questions that the last summary answers and the one before did not, or the reverse
SELECT query_id, question, baseline_answer, answer FROM question_flips
WHERE run_id = (SELECT run_id FROM latest_runs ORDER BY run_id DESC LIMIT 1)
    AND baseline_run_id = (SELECT previous_run_id FROM latest_runs ORDER BY run_id DESC LIMIT 1);

-- null_reasons: values that are missing, and why
SELECT run_id, measure, null_reason, n_queries FROM null_reasons
ORDER BY run_id DESC, measure;

-- cost_by_run: what runs cost
SELECT experiment, logical_date, seconds, n_cached, n_stages, n_calls, cost, currency
FROM cost_by_run ORDER BY run_id DESC LIMIT 10;

-- run_tags: runs of a release
SELECT run_id FROM run_tags WHERE tag = 'release-4';

-- chunk_texts: what the last run retrieved first for each query
SELECT ranking.query_id, chunk.text
FROM latest_runs AS run
JOIN rankings AS ranking USING (rankings_digest)
JOIN chunk_texts AS chunk
    ON chunk.chunks_digest = run.chunks_digest AND chunk.chunk_id = ranking.chunk_id
WHERE ranking.rank = 1 AND run.run_id = (SELECT max(run_id) FROM latest_runs);

-- newest_run_metrics: all measures of a run
SELECT measure, mean, n_scored, n_lost, n_failed FROM newest_run_metrics
WHERE run_id = (SELECT max(run_id) FROM runs);

-- newest_query_metrics: queries that nothing relevant was found for
SELECT query_id FROM newest_query_metrics
WHERE run_id = (SELECT max(run_id) FROM runs) AND measure = 'hit@5' AND value = 0;

-- runs: what changed between the runs of an experiment
SELECT logical_date, corpus_digest, chunks_digest, embedding_model, git_commit FROM runs
WHERE experiment = 'handbook' ORDER BY run_id;

-- events: crashes of the last week
SELECT occurred_at, run_id, stage, message FROM events
WHERE kind = 'crashed' AND occurred_at > now() - INTERVAL 7 DAYS;

-- stages: where the time goes
SELECT stage, count(*) AS n_runs, sum(cached::INTEGER) AS n_cached, avg(seconds) AS seconds
FROM stages GROUP BY stage ORDER BY seconds DESC;

-- queries: a benchmark's queries by tag
SELECT unnest(tags) AS tag, count(*) AS n_queries FROM queries
WHERE benchmark_digest = (SELECT benchmark_digest FROM runs ORDER BY run_id DESC LIMIT 1)
GROUP BY tag;

-- rankings: what was retrieved for one query
SELECT rank, item_id, retrieval_score FROM rankings
WHERE rankings_digest = (SELECT rankings_digest FROM runs ORDER BY run_id DESC LIMIT 1)
    AND query_id = 'q7'
ORDER BY rank;

-- labels: lost ground truth
SELECT query_id, item_id, doc_id, gain FROM labels
WHERE kind = 'lost'
    AND labels_digest = (SELECT labels_digest FROM runs ORDER BY run_id DESC LIMIT 1);

-- measures: what a measure promises
SELECT formula, lowest, highest, edge_policy, source FROM measures WHERE measure = 'ndcg@10';

-- query_metrics: all values of one query, also under older contracts
SELECT run_id, measure, contract_version, value, null_reason FROM query_metrics
WHERE query_id = 'q7' ORDER BY run_id, measure;

-- run_metrics: how certain means are
SELECT run_id, measure, mean, low, high FROM run_metrics WHERE n_failed > 0;

-- summary_scores: summaries that could not be scored
SELECT run_id, query_id, status, message FROM summary_scores WHERE status <> 'scored';

-- summary_questions: what the summary of one query did not answer
SELECT question, reason FROM summary_questions
WHERE query_id = 'q7' AND answer = '0' AND run_id = (SELECT max(run_id) FROM runs);

-- llm_calls: slow calls
SELECT purpose, model, seconds, n_tries, status FROM llm_calls
WHERE NOT is_reused ORDER BY seconds DESC LIMIT 10;

-- comparisons: nights that were worse
SELECT run_id, measure, difference, p_adjusted FROM comparisons WHERE verdict = 'worse';

-- baselines: who accepted which run
SELECT accepted_at, experiment, run_id, author, reason FROM baselines ORDER BY accepted_at;

-- migrations: how old the tables are
SELECT version, name, applied_at FROM migrations ORDER BY version;
