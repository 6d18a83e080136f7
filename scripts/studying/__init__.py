"""The parts of ``scripts/study``: networks that differ in their activation alone, in float and in INT8.

``training`` has the tasks and the recipe, ``schemes`` measures one network and keeps what came, ``statistics`` turns
numbers of several seeds into differences and verdicts, ``tables`` and ``claims`` write them down.
"""
