"""Sessions of other agents as sessions of Newel. Nothing of the originals is changed."""
