"""Browser tests. They are a package because they share one browser: see ``conftest.browser``."""
