-- What an LLM's summary scores rest on beside the first answer: repeats, and what was cut.

ALTER TABLE summary_scores ADD COLUMN n_repeats BIGINT;
ALTER TABLE summary_scores ADD COLUMN spread DOUBLE;
ALTER TABLE summary_scores ADD COLUMN n_characters_cut BIGINT;
ALTER TABLE summary_questions ADD COLUMN answers VARCHAR;

COMMENT ON COLUMN summary_scores.n_questions IS 'Questions that were asked, each as often as it was asked';
COMMENT ON COLUMN summary_scores.n_answered IS 'Answers that are "1", over all repeats';
COMMENT ON COLUMN summary_scores.n_repeats IS 'How often the questions were asked; NULL: not scored, or before repeats were stored';
COMMENT ON COLUMN summary_scores.spread IS 'Highest minus lowest summary_score of the repeats; NULL: asked once';
COMMENT ON COLUMN summary_scores.n_characters_cut IS 'Characters of the contexts that did not fit summary.max_context_tokens of the generator; NULL: none was needed';
COMMENT ON COLUMN summary_questions.answer IS '"1" or "0" from the summary, of the first repeat; NULL: not answered';
COMMENT ON COLUMN summary_questions.answers IS 'The answers of all repeats in their order, such as 101; NULL: not answered';
