"""The results: connections, migrations, spool, loader and queries."""
