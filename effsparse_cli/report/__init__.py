"""Render results as text: one folder per kind of result, one module per format, each a function from result to str.

The `FORMATS` table in each folder lists what a command can print. Modules outside the folders are shared.
"""
