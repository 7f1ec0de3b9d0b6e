-- Events say too what was pruned and what people were told.

COMMENT ON TABLE events IS 'What happened to a run: crashes, warnings, lost ground truth, notes and tags, notifications, its removal';
COMMENT ON COLUMN events.kind IS 'crashed, warning, damaged, truth, note, tag, untag, notified, notification_failed or pruned';
COMMENT ON COLUMN events.run_id IS 'The run; it may be missing in runs when it crashed or was pruned. NULL: about no run';
COMMENT ON COLUMN runs.attempt IS 'From 1, in order of run_id, for one experiment and logical_date; pruned attempts are not counted';
