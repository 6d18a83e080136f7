"""Exporters: each turns a PyTorch module into a graph. Shipped as ``gelu_deploy.exporters``; torch lives here."""
