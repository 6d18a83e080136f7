"""The INT8 recipe: what of a float network is quantized, where, with which ranges, and what that costs.

::

    NAME.onnx -prepare-> Network -calibrate-> ranges -insert-> INT8 graph -coverage, quality-> may it ship

``network`` holds the words the rooms share, ``prepare`` makes the float graph ready, ``calibration`` measures ranges,
``insert`` has ONNX Runtime's quantizer put Q and DQ where the recipe says, ``correct`` and ``outliers`` repair,
``coverage`` reads what really runs in integers, ``quality`` and ``sensitivity`` say which layer costs what. It knows
nothing of PyTorch.
"""
