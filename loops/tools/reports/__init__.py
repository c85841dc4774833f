"""Read what a test run left behind: JUnit XML, coverage, or the last lines it printed (SPEC G1, L2). Pure.

All of it was written by code that nobody trusts: documents are read as a stream without entities, every number of
elements, every text and every count is bounded, and what cannot be read is None, never an error.
"""

from loops.tools.reports.console_output import READ_OF_OUTPUT as READ_OF_OUTPUT
from loops.tools.reports.console_output import text_summary as text_summary
from loops.tools.reports.coverage import coverage as coverage
from loops.tools.reports.coverage import text_coverage as text_coverage
from loops.tools.reports.documents import LARGEST as LARGEST
from loops.tools.reports.junit import junit as junit
from loops.tools.reports.report import Failure as Failure
from loops.tools.reports.report import Report as Report
