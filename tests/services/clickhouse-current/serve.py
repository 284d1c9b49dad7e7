#!/usr/bin/env python3
"""Serves a current ClickHouse from libchdb.so: its own TCP and HTTP handlers, opened by SYSTEM START LISTEN.

usage: serve.py LIBCHDB DATA_DIR TCP_PORT HTTP_PORT CONFIG_FILE
"""

import ctypes
import sys

# Opens the two ports, then keeps the process busy with a query that never ends.
SERVE_FOREVER = (
    "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP; "
    "SELECT sleepEachRow(3) FROM system.numbers FORMAT Null "
    "SETTINGS max_block_size = 1, max_threads = 1, log_queries = 0"
)


def main() -> None:
    library, data, tcp_port, http_port, config = sys.argv[1:]
    arguments = [
        "clickhouse",
        f"--config-file={config}",
        f"--path={data}",
        "--listen_host=127.0.0.1",
        "--log-level=information",
        f"--tcp_port={tcp_port}",
        f"--http_port={http_port}",
        f"--query={SERVE_FOREVER}",
    ]
    chdb = ctypes.CDLL(library)
    chdb.chdb_query_cmdline.restype = ctypes.c_void_p
    chdb.chdb_query_cmdline.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    chdb.chdb_result_error.restype = ctypes.c_char_p
    chdb.chdb_result_error.argtypes = [ctypes.c_void_p]

    argv = (ctypes.c_char_p * (len(arguments) + 1))(*[a.encode() for a in arguments], None)
    result = chdb.chdb_query_cmdline(len(arguments), argv)
    sys.exit(f"the server ended: {chdb.chdb_result_error(result)}")


if __name__ == "__main__":
    main()
