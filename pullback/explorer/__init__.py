"""The transformation explorer: a page that shows a Program, and what each transformation did to it."""
