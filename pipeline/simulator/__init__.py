"""A Kafka producer and its brokers in virtual time: batches, requests, sticky partitions, latencies.

In a notebook, with `scenario.scenario_file`, `engine.simulate`, `engine.result` and `summary`:

    [variant] = load_scenario("kip-794-1mb").select(["adaptive"])      # or the path of a YAML file
    result = simulate(variant.scenario, seed=1, traces=True)
    [result.count(result.queues_of_broker(broker), QueueCounter.DONE_RECORDS) for broker in range(3)]
    result.batch_trace.to_pandas()                                     # a row for each batch
    [summary] = summarise_variants([variant], seeds=range(20))
    summary.brokers[0]["bytes_share"]                                  # Range(median, low, high)
"""
