"""The workbench in the browser: one server, one page, one stream."""
