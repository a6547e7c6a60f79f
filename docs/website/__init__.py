"""What makes the site of Markdown pages: `python docs/build.py OUT`."""
