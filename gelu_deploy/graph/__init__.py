"""Passes over onnx_ir graphs: what is a GELU, write it anew, simplify, keep module names."""
