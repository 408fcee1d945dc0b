"""Graph to Analysis: counts, reasons, and where a network is cut or about to be."""
