"""Attack real `everyword serve` processes and count what goes wrong: `make attack`.

Each module is one way to attack. `python -m tools.attack` runs all of them and prints one table.
"""
