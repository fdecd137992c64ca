"""The workbench in the browser: a local server behind a guard, and hand-written pages.

- `guard`: who may ask; `web`: the server; `jobs`: plays, one at a time.
- `desk`: a policy that is open; `bench`, `viewer`, `states`, `overview`: what a page asks about it.
- `questions`: all questions by name; `widget`: the same for notebooks.
- `assets/`: the page and its modules. They share `player.js` and `report.css` with the report.
"""
