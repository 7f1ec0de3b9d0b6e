"""The nouns: records, measures, experiment configuration, tables."""
