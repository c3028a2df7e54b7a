// The variables of the dashboards. They are called the same in all of them, so that a
// link takes their values along.
function(config) {
  local q = (import 'dashboard-query.libsonnet')(config),
  local one = (import 'dashboard-query.libsonnet')(config, one=true),
  local datasource = { type: 'prometheus', uid: '${datasource}' },

  local query(name, label, expr) = {
    type: 'query',
    name: name,
    label: label,
    datasource: datasource,
    definition: expr,
    query: { query: expr, refId: name },
    refresh: 2,
    sort: 0,
    hide: 0,
    includeAll: false,
    multi: false,
    options: [],
  },

  // all lets several or all be chosen. '.*' matches the series without the label too.
  local all = {
    includeAll: true,
    allValue: '.*',
    multi: true,
    sort: 1,
    current: { selected: true, text: ['All'], value: ['$__all'] },
  },

  // seldom is for what is long in a fleet: it is asked for when a dashboard is opened, not
  // with each refresh.
  local seldom = { refresh: 1 },

  // pair takes the labels text and value of a series as what is shown and what is meant.
  local pair = { regex: '/text="(?<text>[^"]*)".*value="(?<value>[^"]*)"/' },

  datasource: {
    type: 'datasource',
    name: 'datasource',
    label: 'Data source',
    query: 'prometheus',
    regex: '',
    refresh: 1,
    hide: 0,
    includeAll: false,
    multi: false,
    options: [],
    current: { selected: false, text: 'default', value: 'default' },
  },

  cluster: query('cluster', 'Cluster', 'label_values(gpu_driver_up{%s}, %s)' % [config.exporterSelector, config.clusterLabel]) + all {
    hide: if config.showMultiCluster then 0 else 2,
  },

  node: query('node', 'Node', 'label_values(gpu_driver_up{%s}, %s)' % [q.cluster, config.nodeLabel]) + all,

  gpu: query(
    'gpu',
    'GPU',
    'query_result(label_replace(label_join(gpu_info{%s}, "text", " ", "gpu", "name", "%s"), "value", "$1", "uuid", "(.+)"))' % [q.node, config.nodeLabel]
  ) + all + pair + seldom + { sort: 3 },

  namespace: query('namespace', 'Namespace', 'label_values(gpu_process_info{%s}, namespace)' % q.gpu) + all + seldom,
  pod: query('pod', 'Pod', 'label_values(gpu_process_info{%s, namespace=~"$namespace"}, pod)' % q.gpu) + all + seldom,

  // urgentNode is the one of the nodes that are chosen that runs out of memory first: the link to the dashboard of
  // one GPU takes it along.
  urgentNode: query(
    'urgent_node',
    'Node that is full first',
    // It offers one alone: of several Grafana would keep the one that it had.
    'query_result(label_replace(bottomk(1, min by (%(by)s) (%(left)s or gpu_driver_up{%(m)s} + Inf)), "value", "$1", "%(label)s", "(.+)"))'
    % { by: q.nodeBy, m: q.node, left: q.left(q.node), label: config.nodeLabel }
  ) { regex: '/value="([^"]*)"/', hide: 2, skipUrlSync: true },

  // at is the end of a legend: the node where several are shown, else nothing.
  at: query(
    'at',
    'Node in legends',
    'query_result(label_replace(vector(1), "legend", " %(legend)s", "", "") and on () count(count by (%(labels)s) (gpu_driver_up{%(node)s})) > 1 or on () label_replace(vector(1), "legend", " ", "", ""))'
    % { legend: q.nodeLegend, labels: q.nodeBy, node: q.node }
  ) { regex: '/legend="([^"]+)"/', hide: 2, skipUrlSync: true },

  // The variables of a dashboard of one GPU. Those that run out of memory first come
  // first, so it opens with the GPU that matters most.
  urgent: {
    // latest is the last scrape of any node within the time range: what leaks then is urgent,
    // and not what leaked some time in the range.
    latest: query(
      'latest',
      'Last scrape of all',
      'query_result(max(timestamp(gpu_driver_up{%(m)s})) or max(max_over_time(timestamp(gpu_driver_up{%(m)s})[$__range:1m])) or vector(time()))' % { m: q.cluster }
    ) { regex: '/} ([0-9.]+)/', hide: 2, skipUrlSync: true },

    // Nodes that are silent come last.
    node: query(
      'node',
      'Node',
      'query_result(label_replace(sort(min by (%(by)s) (%(left)s or gpu_driver_up{%(m)s} @ $latest + Inf) or min by (%(by)s) (last_over_time(gpu_driver_up{%(m)s}[$__range]) * NaN)), "value", "$1", "%(label)s", "(.+)"))'
      % { by: q.nodeBy, m: q.cluster, label: config.nodeLabel, left: q.left(q.cluster, ' @ $latest') }
    ) { regex: '/value="([^"]*)"/' },

    // now is the last scrape of the node within the time range, which may end in the
    // future, for the forecast.
    now: query(
      'now',
      'Last scrape',
      'query_result(max(timestamp(gpu_driver_up{%(m)s})) or max(max_over_time(timestamp(gpu_driver_up{%(m)s})[$__range:1m])) or vector(time()))' % { m: one.node }
    ) { regex: '/} ([0-9.]+)/', hide: 2, skipUrlSync: true },

    gpu: query(
      'gpu',
      'GPU',
      'query_result(label_replace(label_join(sort(min by (%(by)s, gpu) (%(left)s or last_over_time(gpu_up{%(m)s}[$__range]) + Inf) + on (%(by)s) group_left (name) (0 * max by (%(by)s, name) (last_over_time(gpu_info{%(m)s}[$__range])))), "text", " ", "gpu", "name"), "value", "$1", "uuid", "(.+)"))'
      % { by: q.by, m: one.node, left: q.left(one.node, ' @ $now') }
    ) + pair,

    // instance is one instance of a GPU in MIG mode, and empty for other GPUs: their
    // series have no such label, which an empty value selects.
    instance: query(
      'gpu_instance',
      'MIG instance',
      'query_result(label_replace(label_join(sort(min by (%(by)s) (%(left)s or %(used)s + Inf) + on (%(by)s) group_left (profile) (0 * max by (%(by)s, profile) (%(used)s))), "text", " ", "gpu_instance", "profile"), "value", "$1", "gpu_instance", "(.+)"))'
      % { by: q.domainBy, used: 'last_over_time(gpu_mig_memory_used_bytes{%s}[$__range])' % one.gpu, left: q.left(one.gpu, ' @ $now') }
    ) + pair,

    // namespace and pod choose among the processes and workloads that a GPU has.
    namespace: query('namespace', 'Namespace', 'label_values(gpu_process_info{%s}, namespace)' % one.instance) + all,
    pod: query('pod', 'Pod', 'label_values(gpu_process_info{%s, namespace=~"$namespace"}, pod)' % one.instance) + all,
  },
}
