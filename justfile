# Shortcuts for frequent commands; each line also works without `just`.

# the tests
test *words:
    ./run test {{ words }}

# everything main must pass
ci:
    .ci/run

# speed and memory, beside their floors
bench *words:
    ./run python benchmarks/steps.py {{ words }}

# the instructions up to the first request, whatever the load (needs valgrind)
instructions *words:
    ./run python benchmarks/instructions.py {{ words }}

# small tasks of the evaluation suite with a real model of half a billion parameters, by Newel and by other agents (see evals/README.md)
eval-real *words:
    ./run uv sync --extra local
    ./run python -m scripts.eval_real {{ words }}

# figures of the source: size, function lengths, import cycles, ambiguous names, and the files that three requests enter
house *words:
    ./run python scripts/house.py {{ words }}
    ./run python -m tests.walks {{ words }}

# the documentation as a site in site/, to be opened from there; `./run mkdocs serve` shows it while you write
docs:
    ./run mkdocs build
    @echo "open site/index.html"

# format, and apply automatic fixes
tidy:
    ./run ruff format
    ./run ruff check --fix

# update the pinned versions
pin:
    ./run python scripts/pin.py

# the pictures in the documentation, from real runs (needs tmux, a browser and an SSH server)
pictures:
    ./run python -m scripts.picture
    ./run python -m scripts.undo_picture
    ./run python -m scripts.editor_picture
    ./run python -m scripts.conversation_pictures
    ./run python -m scripts.jexida_picture
    ./run python -m scripts.hosts_picture
    ./run python -m scripts.pictures
    ./run python -m scripts.review_pictures
    ./run python -m scripts.kill_film
    ./run python -m scripts.eval_pictures
