"""The job engine: a port, its SQLite implementation, the journal, and workers. It knows no kind of job."""
