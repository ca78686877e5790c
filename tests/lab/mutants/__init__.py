"""How much the tests notice: a sample of small mistakes, made one at a time in a copy of the repository (``make mutants``)."""
