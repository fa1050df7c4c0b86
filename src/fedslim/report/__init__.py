"""Reports: turn run records into a view, and a view into an HTML page. Everything shown comes from the records.

from fedslim.report.finding import find_records
from fedslim.report.page import write_page
from fedslim.report.view import view

write_page(view(find_records(["run-x", "run-sa"]).records), "report.html")
"""
