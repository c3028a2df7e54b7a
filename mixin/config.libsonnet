// What a user of the mixin may set.
{
  _config+:: {
    // Selects the series of the exporter.
    exporterSelector: 'job="gpu_leak_exporter"',

    // Labels by which the nodes of a fleet are told apart. Add your cluster's.
    nodeLabels: ['job', 'instance'],

    // A page wakes somebody up: the memory is full within the hour.
    oomPageSeconds: 60 * 60,
    // A ticket is for working hours: it is full within the day.
    oomTicketSeconds: 24 * 60 * 60,

    // How long a failed scrape may last before it resolves an alert.
    scrapeGap: '5m',

    // %s is the name of the alert in lower case, the anchor of its heading.
    runbookURLPattern: 'https://github.com/gpuleak/gpu_leak_exporter/blob/main/mixin/runbook.md#%s',

    dashboardTags: ['gpu', 'gpu-leak-exporter'],
    dashboardInterval: 'now-6h',
    dashboardRefresh: '1m',
  },
}
