"""Writes records in Avro as Confluent's own serializer does, with a schema registry.

usage: avro_producer.py BOOTSTRAP REGISTRY TOPIC rows|events COUNT
rows: COUNT records, the second half by a schema with a field more; the schemas name a type of another subject.
events: events of Debezium for COUNT keys: all created, every third updated, every fifth deleted, with a tombstone.
"""

import datetime
import decimal
import json
import sys
import uuid

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

MONEY = {
    "type": "record",
    "name": "Money",
    "namespace": "shop",
    "fields": [{"name": "currency", "type": "string"}, {"name": "cents", "type": "long"}],
}


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "price", "type": logical("bytes", "decimal", precision=18, scale=4)},
    {"name": "at", "type": logical("long", "timestamp-micros")},
    {"name": "day", "type": logical("int", "date")},
    {"name": "token", "type": logical("string", "uuid")},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "counts", "type": {"type": "map", "values": "long"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
    {"name": "total", "type": "shop.Money"},
    {"name": "ratio", "type": "double"},
    {"name": "flag", "type": "boolean"},
]
EXTRA = {"name": "extra", "type": ["null", "int"], "default": None}


def row(number, with_extra):
    values = {
        "id": number,
        "note": None if number % 3 == 0 else f"订单 \"{number}\"\n",
        "price": decimal.Decimal(number - 500).scaleb(-4),
        "at": datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc) + datetime.timedelta(microseconds=number),
        "day": datetime.date(1970, 1, 1) + datetime.timedelta(days=number - 10),
        "token": str(uuid.UUID(int=number)),
        "tags": ["a", "中"] * (number % 3),
        "counts": {"n": number},
        "kind": "NEW" if number % 2 else "OLD",
        "total": {"currency": "CNY", "cents": number * 100},
        "ratio": number / 4,
        "flag": number % 2 == 1,
    }
    return {**values, "extra": number} if with_extra else values


def connect(kind, name, **more):
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "v", "type": ["null", "string"], "default": None},
        {
            "name": "amount",
            "type": connect(
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                logicalType="decimal",
                precision=10,
                scale=2,
                **{"connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}},
            ),
        },
        {"name": "at", "type": connect("long", "io.debezium.time.MicroTimestamp")},
    ],
    "connect.name": "srv.shop.orders.Value",
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "db", "type": "string"},
        {"name": "table", "type": ["null", "string"], "default": None},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "srv.shop.orders",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
    "connect.name": "srv.shop.orders.Envelope",
}
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "srv.shop.orders",
    "fields": [{"name": "id", "type": "long"}],
    "connect.name": "srv.shop.orders.Key",
}


def image(number, text):
    amount = decimal.Decimal(number).scaleb(-2)
    return {"id": number, "v": text, "amount": amount, "at": number * 1_000_001}


def event(op, before, after):
    source = {"connector": "mysql", "db": "shop", "table": "orders"}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}


def main(bootstrap, url, topic, kind, count):
    registry = SchemaRegistryClient({"url": url})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})

    def serializer(schema, references=()):
        schema = Schema(json.dumps(schema), "AVRO", list(references))
        return AvroSerializer(registry, schema)

    def produce(key, value):
        while True:
            try:
                return producer.produce(topic, key=key, value=value)
            except BufferError:
                producer.poll(0.1)

    for_value = SerializationContext(topic, MessageField.VALUE)
    for_key = SerializationContext(topic, MessageField.KEY)
    if kind == "rows":
        registry.register_schema(f"{topic}/money", Schema(json.dumps(MONEY), "AVRO"))
        money = [SchemaReference("shop.Money", f"{topic}/money", 1)]
        record = {"type": "record", "name": "Row", "namespace": "orders", "fields": FIELDS}
        old = serializer(record, money)
        new = serializer({**record, "fields": [*FIELDS, EXTRA]}, money)
        for number in range(count):
            later = number >= count // 2
            value = (new if later else old)(row(number, later), for_value)
            produce(None, value)
    else:
        key, value = serializer(KEY), serializer(ENVELOPE)
        for number in range(count):
            name = key({"id": number}, for_key)
            produce(name, value(event("c", None, image(number, "created")), for_value))
            if number % 3 == 0:
                images = image(number, "created"), image(number, "updated")
                produce(name, value(event("u", *images), for_value))
            if number % 5 == 0:
                produce(name, value(event("d", image(number, "updated"), None), for_value))
                produce(name, None)
    left = producer.flush(60)
    if left:
        sys.exit(f"{left} records were not delivered")


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
