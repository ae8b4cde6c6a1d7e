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

# figures of the source: size, function lengths, import cycles, names that mean two things
house *words:
    ./run python scripts/house.py {{ words }}

# lay out and fix what can be fixed by itself
tidy:
    ./run ruff format
    ./run ruff check --fix

# new versions of everything, as pins
pin:
    ./run python scripts/pin.py

# the picture in the README, from a real run in a real terminal (needs tmux)
picture:
    ./run python scripts/picture.py
