"""For pytest and unittest, standard library of Python 3.8 alone: a program finds it by the name ``sitecustomize``."""
