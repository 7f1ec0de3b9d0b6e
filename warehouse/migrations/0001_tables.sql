-- The tables. Every row is written once, by the loader, in the transaction of its part.
-- Only what DuckDB 1.5, 2.0 and DuckLake share: no keys, CHECK, ENUM or macros.

CREATE TABLE runs (
    run_id VARCHAR NOT NULL,
    experiment VARCHAR NOT NULL,
    attempt INTEGER NOT NULL,
    logical_date DATE NOT NULL,
    status VARCHAR NOT NULL,
    status_reason VARCHAR,
    suite VARCHAR,
    grid_id VARCHAR,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ NOT NULL,
    seconds DOUBLE NOT NULL,
    cpu_seconds DOUBLE,
    peak_memory_bytes BIGINT,
    config JSON NOT NULL,
    config_digest VARCHAR NOT NULL,
    corpus_path VARCHAR NOT NULL,
    corpus_digest VARCHAR,
    n_documents BIGINT,
    benchmark_path VARCHAR NOT NULL,
    benchmark_digest VARCHAR,
    split VARCHAR,
    n_queries BIGINT,
    chunks_digest VARCHAR,
    n_chunks BIGINT,
    vectors_digest VARCHAR,
    index_digest VARCHAR,
    rankings_digest VARCHAR,
    labels_digest VARCHAR,
    label_method VARCHAR NOT NULL,
    depth BIGINT NOT NULL,
    embedding_model VARCHAR,
    embedding_revision VARCHAR,
    embedding_weights_digest VARCHAR,
    models JSON NOT NULL,
    rankhouse_version VARCHAR NOT NULL,
    git_commit VARCHAR,
    git_dirty BOOLEAN,
    python_version VARCHAR NOT NULL,
    libraries JSON NOT NULL,
    machine JSON NOT NULL,
    flow_run_id VARCHAR,
    loaded_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE runs IS 'One evaluation of one experiment, with everything that its numbers rest on';
COMMENT ON COLUMN runs.run_id IS 'UUIDv7, made when the run started: ids sort by time';
COMMENT ON COLUMN runs.experiment IS 'Name of the experiment; config_digest says which configuration it had';
COMMENT ON COLUMN runs.attempt IS 'From 1, in order of run_id, for one experiment and logical_date';
COMMENT ON COLUMN runs.logical_date IS 'The night that the run stands for';
COMMENT ON COLUMN runs.status IS 'completed, degraded (some values are failed or a budget was reached) or failed';
COMMENT ON COLUMN runs.status_reason IS 'A sentence; NULL when completed';
COMMENT ON COLUMN runs.suite IS 'Name of the suite that asked for the run; NULL: a run of its own';
COMMENT ON COLUMN runs.grid_id IS 'Shared by the runs of one grid; NULL: not part of a grid';
COMMENT ON COLUMN runs.started_at IS 'Start, UTC';
COMMENT ON COLUMN runs.ended_at IS 'End, UTC';
COMMENT ON COLUMN runs.seconds IS 'Elapsed time';
COMMENT ON COLUMN runs.cpu_seconds IS 'CPU time of the process and its children during the run';
COMMENT ON COLUMN runs.peak_memory_bytes IS 'Largest resident size of the process';
COMMENT ON COLUMN runs.config IS 'The resolved configuration, without secrets';
COMMENT ON COLUMN runs.config_digest IS 'sha256 of the configuration as canonical JSON';
COMMENT ON COLUMN runs.corpus_path IS 'Where the corpus was read';
COMMENT ON COLUMN runs.corpus_digest IS 'sha256 of the documents; NULL: the run failed before they were read. Likewise the other digests';
COMMENT ON COLUMN runs.n_documents IS 'Documents in the corpus';
COMMENT ON COLUMN runs.benchmark_path IS 'Where the benchmark was read';
COMMENT ON COLUMN runs.benchmark_digest IS 'sha256 of the benchmark as written: its rows in queries';
COMMENT ON COLUMN runs.split IS 'The benchmark''s split that was evaluated; NULL: all queries';
COMMENT ON COLUMN runs.n_queries IS 'Queries of the split';
COMMENT ON COLUMN runs.chunks_digest IS 'sha256 of the chunks';
COMMENT ON COLUMN runs.n_chunks IS 'Chunks that were indexed';
COMMENT ON COLUMN runs.vectors_digest IS 'sha256 of the chunks'' vectors';
COMMENT ON COLUMN runs.index_digest IS 'sha256 of the index';
COMMENT ON COLUMN runs.rankings_digest IS 'sha256 of the rankings: their rows in rankings';
COMMENT ON COLUMN runs.labels_digest IS 'sha256 of the labels: their rows in labels';
COMMENT ON COLUMN runs.label_method IS 'answer_text, span or document';
COMMENT ON COLUMN runs.depth IS 'How much was retrieved for each query';
COMMENT ON COLUMN runs.embedding_model IS 'Name of the embedding model; NULL: none was used';
COMMENT ON COLUMN runs.embedding_revision IS 'Its revision, where it has one';
COMMENT ON COLUMN runs.embedding_weights_digest IS 'sha256 of its weights, where they are files';
COMMENT ON COLUMN runs.models IS 'Every model that was used: [{"role", "name", "revision", "weights_digest"}]';
COMMENT ON COLUMN runs.rankhouse_version IS 'Version of Rankhouse';
COMMENT ON COLUMN runs.git_commit IS 'Commit of the checkout that ran; NULL: not a checkout';
COMMENT ON COLUMN runs.git_dirty IS 'Whether that checkout had changes that were not committed';
COMMENT ON COLUMN runs.python_version IS 'Version of Python';
COMMENT ON COLUMN runs.libraries IS 'Versions of the libraries that decide the numbers: {"faiss-cpu": "1.15.1"}';
COMMENT ON COLUMN runs.machine IS 'Host, system, processor, number of CPUs, memory';
COMMENT ON COLUMN runs.flow_run_id IS 'Prefect''s id of the flow run';
COMMENT ON COLUMN runs.loaded_at IS 'When the loader took the run, UTC';

CREATE TABLE events (
    event_id VARCHAR NOT NULL,
    run_id VARCHAR,
    kind VARCHAR NOT NULL,
    occurred_at TIMESTAMPTZ NOT NULL,
    stage VARCHAR,
    query_id VARCHAR,
    author VARCHAR,
    host VARCHAR,
    message VARCHAR NOT NULL,
    details JSON
);
COMMENT ON TABLE events IS 'What happened to a run: crashes, warnings, lost ground truth, notes and tags';
COMMENT ON COLUMN events.event_id IS 'Identifies the event: one is never stored twice';
COMMENT ON COLUMN events.run_id IS 'The run; it may be missing in runs when it crashed. NULL: about no run';
COMMENT ON COLUMN events.kind IS 'crashed, warning, damaged, truth, note, tag or untag';
COMMENT ON COLUMN events.occurred_at IS 'When, UTC; for crashed: the last sign of life';
COMMENT ON COLUMN events.stage IS 'Stage of the run at that time, where it matters';
COMMENT ON COLUMN events.query_id IS 'The query, when it is about one';
COMMENT ON COLUMN events.author IS 'Who wrote a note or tag';
COMMENT ON COLUMN events.host IS 'Machine';
COMMENT ON COLUMN events.message IS 'A sentence; for tag and untag: the tag';
COMMENT ON COLUMN events.details IS 'More, as a JSON object';

CREATE TABLE stages (
    run_id VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    stage VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    cached BOOLEAN NOT NULL,
    stage_key VARCHAR,
    code_digest VARCHAR,
    inputs JSON,
    output_digest VARCHAR,
    started_at TIMESTAMPTZ,
    seconds DOUBLE,
    cpu_seconds DOUBLE,
    peak_memory_bytes BIGINT,
    figures JSON,
    message VARCHAR
);
COMMENT ON TABLE stages IS 'One stage of one run: what it read and made, what it cost, whether it was reused';
COMMENT ON COLUMN stages.run_id IS 'The run';
COMMENT ON COLUMN stages.position IS 'From 1, in the order of the run';
COMMENT ON COLUMN stages.stage IS 'Name of the stage';
COMMENT ON COLUMN stages.status IS 'completed or failed';
COMMENT ON COLUMN stages.cached IS 'Whether a stored result was reused';
COMMENT ON COLUMN stages.stage_key IS 'Cache key: equal keys mean equal work';
COMMENT ON COLUMN stages.code_digest IS 'Fingerprint of the stage''s code';
COMMENT ON COLUMN stages.inputs IS 'Digests of what it read: {"chunks": "…"}';
COMMENT ON COLUMN stages.output_digest IS 'sha256 of what it made';
COMMENT ON COLUMN stages.started_at IS 'Start, UTC';
COMMENT ON COLUMN stages.seconds IS 'Elapsed time';
COMMENT ON COLUMN stages.cpu_seconds IS 'CPU time';
COMMENT ON COLUMN stages.peak_memory_bytes IS 'Largest resident size of the process up to the stage''s end';
COMMENT ON COLUMN stages.figures IS 'Sizes, latencies and rates that the stage measured';
COMMENT ON COLUMN stages.message IS 'Why it failed; NULL when completed';

CREATE TABLE queries (
    benchmark_digest VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    text VARCHAR NOT NULL,
    tags VARCHAR[],
    split VARCHAR,
    answers VARCHAR[],
    spans STRUCT(doc_id VARCHAR, "start" BIGINT, "end" BIGINT, quote VARCHAR, grade BIGINT)[],
    qrels STRUCT(doc_id VARCHAR, grade BIGINT)[],
    response VARCHAR,
    reference_contexts VARCHAR[]
);
COMMENT ON TABLE queries IS 'The queries of a benchmark with their ground truth, stored once per benchmark';
COMMENT ON COLUMN queries.benchmark_digest IS 'The benchmark: runs.benchmark_digest';
COMMENT ON COLUMN queries.query_id IS 'Id of the query in its benchmark';
COMMENT ON COLUMN queries.text IS 'What is asked';
COMMENT ON COLUMN queries.tags IS 'Slices that the query belongs to';
COMMENT ON COLUMN queries.split IS 'Its split; NULL: none';
COMMENT ON COLUMN queries.answers IS 'Gold answers. NULL: the field is absent; empty: given but empty. Likewise below';
COMMENT ON COLUMN queries.spans IS 'Gold spans; start and end in characters, half open';
COMMENT ON COLUMN queries.qrels IS 'Graded documents';
COMMENT ON COLUMN queries.response IS 'A summary that the benchmark brings';
COMMENT ON COLUMN queries.reference_contexts IS 'Contexts that the benchmark brings';

CREATE TABLE rankings (
    rankings_digest VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    rank INTEGER NOT NULL,
    item_id VARCHAR NOT NULL,
    chunk_id VARCHAR NOT NULL,
    retrieval_score DOUBLE NOT NULL
);
COMMENT ON TABLE rankings IS 'What was retrieved for each query, stored once per digest';
COMMENT ON COLUMN rankings.rankings_digest IS 'Content of the rankings: runs.rankings_digest';
COMMENT ON COLUMN rankings.query_id IS 'The query';
COMMENT ON COLUMN rankings.rank IS 'From 1, best first';
COMMENT ON COLUMN rankings.item_id IS 'What is ranked: a chunk or, with document labels, a document';
COMMENT ON COLUMN rankings.chunk_id IS 'The chunk, doc_id#start-end; with document labels the document''s best chunk';
COMMENT ON COLUMN rankings.retrieval_score IS 'Higher is better';

CREATE TABLE labels (
    labels_digest VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    item_id VARCHAR NOT NULL,
    doc_id VARCHAR,
    "start" BIGINT,
    "end" BIGINT,
    gain INTEGER NOT NULL
);
COMMENT ON TABLE labels IS 'Every item with a gain or judgement, retrieved or not, stored once per digest';
COMMENT ON COLUMN labels.labels_digest IS 'Content of the labels: runs.labels_digest';
COMMENT ON COLUMN labels.query_id IS 'The query';
COMMENT ON COLUMN labels.kind IS 'item (a chunk or document), span (a gold span) or lost (ground truth that nothing can satisfy)';
COMMENT ON COLUMN labels.item_id IS 'As in rankings; for spans and lost items an id of their own';
COMMENT ON COLUMN labels.doc_id IS 'The document, where there is one';
COMMENT ON COLUMN labels."start" IS 'First character of the chunk or span';
COMMENT ON COLUMN labels."end" IS 'Character after the last one';
COMMENT ON COLUMN labels.gain IS 'The grade as given; below 0 it counts as unjudged';

CREATE TABLE measures (
    measure VARCHAR NOT NULL,
    contract_version INTEGER NOT NULL,
    family VARCHAR NOT NULL,
    formula VARCHAR NOT NULL,
    lowest DOUBLE NOT NULL,
    highest DOUBLE,
    edge_policy VARCHAR NOT NULL,
    source VARCHAR NOT NULL
);
COMMENT ON TABLE measures IS 'The contract under which values of a measure were computed';
COMMENT ON COLUMN measures.measure IS 'Name of the measure, such as ndcg@10';
COMMENT ON COLUMN measures.contract_version IS 'Rises whenever a value could change';
COMMENT ON COLUMN measures.family IS 'The measure without cutoff and parameters';
COMMENT ON COLUMN measures.formula IS 'How a value is computed';
COMMENT ON COLUMN measures.lowest IS 'Smallest possible value';
COMMENT ON COLUMN measures.highest IS 'Largest possible value; NULL: unbounded';
COMMENT ON COLUMN measures.edge_policy IS 'What happens when nothing is relevant, too little is retrieved, and so on';
COMMENT ON COLUMN measures.source IS 'Where the definition is from';

CREATE TABLE query_metrics (
    run_id VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,
    contract_version INTEGER NOT NULL,
    value DOUBLE,
    null_reason VARCHAR
);
COMMENT ON TABLE query_metrics IS 'One value of one measure for one query of one run';
COMMENT ON COLUMN query_metrics.run_id IS 'The run';
COMMENT ON COLUMN query_metrics.query_id IS 'The query';
COMMENT ON COLUMN query_metrics.measure IS 'The measure';
COMMENT ON COLUMN query_metrics.contract_version IS 'Contract that the value was computed under';
COMMENT ON COLUMN query_metrics.value IS 'Finite and within the contract''s range, or NULL with a reason';
COMMENT ON COLUMN query_metrics.null_reason IS 'no_relevant, no_judged or failed; NULL: there is a value';

CREATE TABLE run_metrics (
    run_id VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,
    contract_version INTEGER NOT NULL,
    mean DOUBLE,
    n_scored BIGINT NOT NULL,
    n_queries BIGINT NOT NULL,
    n_lost BIGINT NOT NULL,
    n_failed BIGINT NOT NULL,
    low DOUBLE,
    high DOUBLE,
    comparability_key VARCHAR NOT NULL
);
COMMENT ON TABLE run_metrics IS 'The mean of one measure over the queries of one run';
COMMENT ON COLUMN run_metrics.run_id IS 'The run';
COMMENT ON COLUMN run_metrics.measure IS 'The measure';
COMMENT ON COLUMN run_metrics.contract_version IS 'Contract that the values were computed under';
COMMENT ON COLUMN run_metrics.mean IS 'Mean over the scored queries; NULL: none was scored';
COMMENT ON COLUMN run_metrics.n_scored IS 'Queries with a value';
COMMENT ON COLUMN run_metrics.n_queries IS 'All queries of the split';
COMMENT ON COLUMN run_metrics.n_lost IS 'Queries with lost ground truth';
COMMENT ON COLUMN run_metrics.n_failed IS 'Queries whose value failed';
COMMENT ON COLUMN run_metrics.low IS 'The mean, had every failed value been the contract''s lowest';
COMMENT ON COLUMN run_metrics.high IS 'The mean, had every failed value been the contract''s highest; NULL: unbounded';
COMMENT ON COLUMN run_metrics.comparability_key IS 'Only values with equal keys may be compared';

CREATE TABLE summary_scores (
    run_id VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    message VARCHAR,
    summary_score DOUBLE,
    qa DOUBLE,
    conciseness DOUBLE,
    n_questions BIGINT,
    n_answered BIGINT,
    response VARCHAR,
    response_source VARCHAR,
    n_characters_response BIGINT,
    n_characters_contexts BIGINT,
    contexts_digest VARCHAR,
    generator VARCHAR,
    judge VARCHAR
);
COMMENT ON TABLE summary_scores IS 'How well the summary of one query keeps what its contexts say';
COMMENT ON COLUMN summary_scores.run_id IS 'The run';
COMMENT ON COLUMN summary_scores.query_id IS 'The query';
COMMENT ON COLUMN summary_scores.status IS 'scored, or why there is no score';
COMMENT ON COLUMN summary_scores.message IS 'A sentence; NULL when scored';
COMMENT ON COLUMN summary_scores.summary_score IS 'qa weighed with conciseness';
COMMENT ON COLUMN summary_scores.qa IS 'Share of the questions that the summary answers';
COMMENT ON COLUMN summary_scores.conciseness IS 'How much shorter than its contexts the summary is';
COMMENT ON COLUMN summary_scores.n_questions IS 'Questions that were asked';
COMMENT ON COLUMN summary_scores.n_answered IS 'Questions whose answer is "1"';
COMMENT ON COLUMN summary_scores.response IS 'The summary';
COMMENT ON COLUMN summary_scores.response_source IS 'benchmark, or the generator''s name';
COMMENT ON COLUMN summary_scores.n_characters_response IS 'Length of the summary';
COMMENT ON COLUMN summary_scores.n_characters_contexts IS 'Length of the contexts, joined by newlines';
COMMENT ON COLUMN summary_scores.contexts_digest IS 'sha256 of the joined contexts';
COMMENT ON COLUMN summary_scores.generator IS 'What wrote the summary; NULL: the benchmark brought it';
COMMENT ON COLUMN summary_scores.judge IS 'What asked and answered the questions';

CREATE TABLE summary_questions (
    run_id VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    question_index INTEGER NOT NULL,
    key_phrase VARCHAR,
    question VARCHAR NOT NULL,
    answer VARCHAR,
    reason VARCHAR
);
COMMENT ON TABLE summary_questions IS 'The closed questions behind a summary score, with their answers';
COMMENT ON COLUMN summary_questions.run_id IS 'The run';
COMMENT ON COLUMN summary_questions.query_id IS 'The query';
COMMENT ON COLUMN summary_questions.question_index IS 'From 0';
COMMENT ON COLUMN summary_questions.key_phrase IS 'What the question is about';
COMMENT ON COLUMN summary_questions.question IS 'The question; its answer is yes from the contexts';
COMMENT ON COLUMN summary_questions.answer IS '"1" or "0" from the summary; NULL: not answered';
COMMENT ON COLUMN summary_questions.reason IS 'Why this answer';
