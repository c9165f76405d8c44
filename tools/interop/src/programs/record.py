# Runs the tests of rdma-core, which lie beside it, and writes one line for each into the file that RECORD
# names: "outcome name reason", where the outcome is ok, skipped or failed. Takes the arguments of
# run_tests.py. LEAVE_OUT may name a module whose tests do not run.

import multiprocessing
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests")
sys.path[:0] = [FOLDER, os.path.dirname(FOLDER)]

from args_parser import parser  # noqa: E402


class Record(unittest.TextTestResult):
    """Writes a line for each test."""

    def say(self, outcome, test, reason=""):
        line = " ".join([outcome, test.id(), *str(reason).split()])
        with open(os.environ["RECORD"], "a", encoding="utf-8") as record:
            print(line, file=record)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skipped", test, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("failed", test, err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say("failed", test, err[1])


# Tests with processes pickle themselves where a process is not a fork, and this result with them.
multiprocessing.set_start_method("fork")
tests = SourceFileLoader("tests", os.path.join(FOLDER, "__init__.py")).load_module()
tests.__test_modules__ = [
    module for module in tests.__test_modules__ if module.__name__ != os.environ.get("LEAVE_OUT")
]
parser.parse_args()
runner = unittest.TextTestRunner(resultclass=Record, verbosity=1)
unittest.main(module=tests, testRunner=runner, exit=False)
