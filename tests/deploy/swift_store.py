"""OpenStack Swift on loopback with its S3 interface: a real object store, from Debian's packages, for the tests.

Run by Debian's own Python as a program it is one of Swift's servers: `swift_store.py SWIFT.CONF PROGRAM SERVER.CONF`.
"""

import runpy
import sys

if __name__ == "__main__":
    from swift.common import utils

    utils.SWIFT_CONF_FILE = sys.argv[1]
    program = sys.argv[2]
    sys.argv = [program, sys.argv[3]]
    runpy.run_path(program, run_name="__main__")
