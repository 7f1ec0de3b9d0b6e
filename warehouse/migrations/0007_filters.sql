-- What a query's documents must have.

ALTER TABLE queries ADD COLUMN filter JSON;
COMMENT ON COLUMN queries.filter IS 'Metadata that a retrieved document must have; NULL: any document, or stored before filters were';
