"""HTML: the page of `effsparse report --format html`, and the compact form of results that notebooks show.

Templates are in `templates`; scripts and styles in `assets` are built from `web`, so that installing needs no Node.
"""
