// What a user of the mixin may set. Everything else follows from it.
{
  assert $._config.exporterSelector != '' : 'exporterSelector is empty: select the series of the exporter, as in job="gpu"',
  assert std.isNumber($._config.oomPageSeconds) : 'oomPageSeconds is a number of seconds, such as 2 * 60 * 60',

  _config+:: {
    // Selects the series of the exporter. It stands in every selector.
    exporterSelector: 'job="gpu_leak_exporter"',

    // The label of the target that names the node: 'instance', or 'node' where
    // relabelling sets one.
    nodeLabel: 'instance',

    // The label by which several clusters in one Prometheus, Thanos or Mimir are
    // told apart. It stands in every aggregation and join, and does no harm where
    // no series has it; showMultiCluster adds the variable to the dashboards.
    clusterLabel: 'cluster',
    showMultiCluster: false,

    // A page wakes somebody up: memory is full within the hour.
    oomPageSeconds: 60 * 60,
    // A ticket is for working hours: memory is full within the day.
    oomTicketSeconds: 24 * 60 * 60,
    // What fills within this time is a page, leak or not: later than this the detector
    // may yet make sure, and most growth that is no leak ends before.
    oomFillingSeconds: 15 * 60,

    // How old the last sample of an alert on memory may be: a scrape that fails ends all series of a target at once.
    scrapeGap: '2m',
    // How long a page on health outlives its condition: a node that is not scraped for a
    // while has not recovered. An alert on memory goes on for scrapeGap.
    keepFiringFor: '10m',

    // The `for` of each class of alert; those on memory have none. '0s' has its use in tests on simulated time.
    //
    // States that do not go away by themselves, but for a reset that is under way.
    forHealth: '5m',
    // A share of 15 minutes that has to last for as long again: no single hot job.
    forThrottle: '15m',
    // A restart of the exporter, the driver or the node takes less.
    forExporter: '5m',
    // What is not there in half of the samples of absenceRange, for forLost, is absent: a scrape that succeeds by luck
    // does not begin the wait anew. Together they are five minutes. What is new has newFor to begin, and what was
    // there for wellAfter, two scrapes at least, is well.
    absenceRange: '4m',
    newFor: '2m',
    wellAfter: '1m',
    forLost: '3m',
    // A collector that fails now and then is tried again every 15 s.
    forCollector: '15m',
    // Prometheus itself needs a while after its start to discover its targets.
    forAbsent: '15m',

    // Zombies and unreleased memory below this many bytes are nobody's ticket.
    heldBytes: 1024 * 1024 * 1024,
    // A GPU is throttled while a clock event holds it back for this share of a
    // quarter of an hour.
    throttleRatio: 0.25,
    // GPUs that tell no thresholds are hot above this, in degrees Celsius.
    temperatureCelsius: 90,
    // The clocks event reason that tells of a want of power. sw_power_cap does not:
    // busy GPUs run at their power limit.
    powerReason: 'reason="hw_power_brake_slowdown"',
    // Samples are stale when none came for so long: several scrapes at least.
    staleFor: '5m',

    // Starts of the exporter within an hour that are too many: an upgrade is one or two.
    restartsPerHour: 3,

    // How often the recording rules for fleets are evaluated.
    rulesInterval: '1m',

    // What an hour of a GPU costs, in the currency that gpuHourCurrency names for
    // Grafana's units. 0: the dashboard Fleet shows GPU-hours.
    gpuHourPrice: 0,
    gpuHourCurrency: 'currencyUSD',

    // %s is the name of the alert in lower case, the anchor of its heading.
    runbookURLPattern: 'https://github.com/gpuleak/gpu_leak_exporter/blob/main/mixin/runbook.md#%s',
    // Where Grafana is, such as https://grafana.example.org: alerts link to its dashboards then.
    grafanaURL: '',
    // The page of the exporter that shows what it foresees; %s is the node label. It is left out where that label has no port,
    // and with ''.
    predictURLPattern: 'http://%s/predict',
    // Ports of exporters that tell of GPUs to one that judges a fleet (--source=prometheus:URL): DCGM exporter's and
    // nvidia_gpu_exporter's. Where the node label of an alert ends with one of them, that page is not there.
    sourcePorts: '9400|9835',

    dashboardTags: ['gpu', 'gpu-leak-exporter'],
    dashboardInterval: 'now-6h',
    dashboardRefresh: '1m',
    dashboardTimezone: 'browser',

    // Only the dashboards use what follows.
    // The time range of the dashboard of one GPU. It ends in the future, where the
    // forecast is.
    leakFrom: 'now-4h',
    leakTo: 'now+2h',
    // --detector.leak-threshold of the exporters.
    leakThreshold: 0.7,
  },
}
