"""The desktop: ``newel desktop``, and the Electron shell in ``desktop/``."""
