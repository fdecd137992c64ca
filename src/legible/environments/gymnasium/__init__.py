"""Gymnasium's own environments: `domains`, with files of names and relations."""
