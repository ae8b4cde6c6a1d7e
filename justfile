# Short names for what is done often; each line works without `just` too.

# the tests
test *words:
    ./run test {{ words }}

# what main must pass
ci:
    .ci/run

# speed and memory, with the floors beside them
bench *words:
    ./run python benchmarks/steps.py {{ words }}

# lay out and mend what can be mended by itself
tidy:
    ./run ruff format
    ./run ruff check --fix

# new versions of everything, as pins
pin:
    ./run python scripts/pin.py

# the picture in the README, from a real run in a real terminal (needs tmux)
picture:
    ./run python scripts/picture.py
