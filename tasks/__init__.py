"""The verbs: one module a stage, and the artifacts and caching beside them."""
