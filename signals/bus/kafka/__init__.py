"""The bus on Kafka, through kafka-python."""
