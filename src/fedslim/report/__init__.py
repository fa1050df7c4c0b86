"""The report room: records of runs become a view, and a view becomes a page. Nothing is computed here, only shown.

from fedslim.report.finding import find_records
from fedslim.report.page import write_page
from fedslim.report.view import view

write_page(view(find_records(["run-x", "run-sa"]).records), "report.html")
"""
