"""A small product of a user, for type checkers: `assert_type` says what they must know."""
