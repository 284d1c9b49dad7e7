"""Rows there and back by a driver of the native protocol that other people wrote.

usage: round_trip.py DRIVER PORT USER PASSWORD      DRIVER: bytehouse_driver or clickhouse_driver
Ends with status 0 when all went as a server of the family does it; says what did not on standard error.
"""

import datetime
import decimal
import importlib
import sys
import uuid

COLUMNS = """id UInt64, note String, discount Nullable(Int32), price Decimal(18, 4), day Date,
    seen DateTime('UTC'), moment DateTime64(3, 'UTC'), tags Array(String), kind Enum8('new' = 1, 'old' = 2),
    token UUID, code FixedString(4), ratio Float64, small Int8"""


def order(number):
    return (
        number,
        f"订单 {number}",
        -number if number % 3 == 0 else None,
        decimal.Decimal(number).scaleb(-4),
        datetime.date(2024, 2, 1 + number % 28),
        datetime.datetime(2024, 2, 29, number % 24, 30, 15),
        datetime.datetime(2024, 2, 29, 12, 30, 15, number % 1000 * 1000),
        ["a", "中"] * (number % 3),
        "new" if number % 2 else "old",
        uuid.UUID(int=number),
        "ab%02d" % (number % 100),
        number / 4,
        number % 256 - 128,
    )


def naive(value):
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} instead of {wanted!r}")


def main(driver, port, user, password):
    module = importlib.import_module(driver)
    errors = importlib.import_module(driver + ".errors")
    client = module.Client("127.0.0.1", port=int(port), user=user, password=password, secure=False, send_receive_timeout=20)

    client.execute("CREATE DATABASE IF NOT EXISTS drivers")
    table = f"drivers.{driver}"
    client.execute(f"CREATE TABLE {table} ({COLUMNS}) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id")
    rows = [order(number) for number in range(5000)]
    expect("rows sent", client.execute(f"INSERT INTO {table} VALUES", rows), len(rows))
    # The same keys again: the table has a UNIQUE KEY.
    client.execute(f"INSERT INTO {table} VALUES", rows[:100])

    found = client.execute(f"SELECT * FROM {table} ORDER BY id")
    found = [tuple(naive(value) for value in row) for row in found]
    expect("count", len(found), len(rows))
    for row, wanted in zip(found, rows):
        expect(f"row {wanted[0]}", row, wanted)

    # Columns, as the driver's typed header.
    described = client.execute(f"SELECT id, discount FROM {table} WHERE id = 3", with_column_types=True)
    expect("types", described, ([(3, -3)], [("id", "UInt64"), ("discount", "Nullable(Int32)")]))
    streamed = client.execute_iter(f"SELECT id FROM {table} ORDER BY id", settings={"max_block_size": 1000})
    expect("streamed", sum(row[0] for row in streamed), sum(range(5000)))

    # An error leaves the client usable, and has the server's code.
    try:
        client.execute("SELECT * FROM drivers.nothing")
        sys.exit("a table that is not there was read")
    except errors.ServerException as error:
        expect("code", error.code, 60)
    expect("after an error", client.execute(f"SELECT count() FROM {table}"), [(5000,)])
    client.disconnect()

    try:
        # The vendor's driver connects when it is made, the other one with its first query.
        wrong = module.Client("127.0.0.1", port=int(port), user=user, password="not this one", secure=False)
        wrong.execute("SELECT 1")
        sys.exit("a wrong password was taken")
    except errors.ServerException as error:
        expect("code of a refused login", error.code, 516)


if __name__ == "__main__":
    main(*sys.argv[1:])
