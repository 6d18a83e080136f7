"""The INT8 recipe: what of a float network is quantized, where, with which ranges, and what that costs.

::

    NAME.onnx -network-> Network -calibration-> ranges -decisions-> INT8 graph -measures-> may it ship

``network`` makes the float graph ready and holds the words that the rooms share, ``calibration`` measures ranges,
``decisions`` says what is quantized and writes it, ``measures`` tells what that costs and what really runs in integers,
``reporting`` puts it into words. It knows nothing of PyTorch.
"""
