"""Trace a module to a flat list of aten operators, without changing the module."""
