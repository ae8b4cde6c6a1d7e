"""Tests in a browser. They are a package so that they have one together: see ``conftest.browser``."""
