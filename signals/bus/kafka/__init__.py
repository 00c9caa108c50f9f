"""The bus on Kafka, through kafka-python.

::

    KafkaBus ─► records of many events ─► a partition of the topic ─► KafkaReader
                (signals.bus.kafka.records)      ▲
                                      KafkaAssignment: a cooperative consumer group

Committed group offsets are never used: how far a partition was read is in its features file, in one
transaction with what was made of it.
"""
