"""What static INT8 does to a network, and what undoes the harm: each kept only where held-out data gain by it.

``deciding`` has the order; ``insert`` and ``half`` write the graph, ``floors`` bounds ranges, ``outliers``,
``scaling`` and ``correct`` repair, ``sensitivity`` and ``mixing`` leave layers in float.
"""
