// The selectors of the dashboards and the labels of their joins. Several nodes may
// show the same GPU when they are simulated, so the node stands in every join.
local panel = import 'panel.libsonnet';

// one is for a dashboard that shows one node and one GPU: there Grafana does not escape
// a value for a regular expression, such as the brackets of an IPv6 address.
function(config, one=false) {
  local q = self,
  local is = if one then '=' else '=~',

  cluster: '%s, %s=~"$cluster"' % [config.exporterSelector, config.clusterLabel],
  node: '%s, %s%s"$node"' % [self.cluster, config.nodeLabel, is],
  gpu: self.node + ', uuid%s"$gpu"' % is,
  // owner also selects what has no namespace and no pod, while all are chosen.
  owner: self.gpu + ', namespace=~"$namespace", pod=~"$pod"',
  instance: self.gpu + ', gpu_instance=~"$gpu_instance"',
  // part are the processes and workloads of the instance that are chosen.
  part: self.instance + ', namespace=~"$namespace", pod=~"$pod"',

  // What names a node: in legends, in the columns of tables, and in the links of rows.
  local several = config.showMultiCluster,
  nodeLegend: (if several then '{{%s}} ' % config.clusterLabel else '') + '{{%s}}' % config.nodeLabel,
  nodeColumns:
    (if several then [{ field: config.clusterLabel, title: 'Cluster', properties: { 'custom.width': 100 } }] else [])
    + [{ field: config.nodeLabel, title: 'Node', properties: { 'custom.minWidth': 135 } }],
  nodeLink: '${datasource:queryparam}&%s&var-node=${__data.fields.Node}' % (if several then 'var-cluster=${__data.fields.Cluster}' else '${cluster:queryparam}'),

  nodeBy: '%s, %s' % [config.clusterLabel, config.nodeLabel],
  by: self.nodeBy + ', uuid',
  domainBy: self.by + ', gpu_instance',
  gpuBy: self.by + ', gpu',

  // words are the selectors and labels for expressions with %(name)s.
  words: {
    node: q.node,
    gpu: q.gpu,
    owner: q.owner,
    instance: q.instance,
    part: q.part,
    nodeBy: q.nodeBy,
    by: q.by,
    domainBy: q.domainBy,
    gpuBy: q.gpuBy,
  },

  // either is the metric of GPUs, and of the instances of those in MIG mode, which
  // have no verdict of their own.
  either(suffix):: '(gpu_%(s)s{%(m)s} or gpu_mig_%(s)s{%(m)s})' % { s: suffix, m: q.gpu },

  // left is the time to out-of-memory as the alerts read it, or an end of its interval: the least within the scrape gap.
  left(suffix='', matchers=q.gpu, at=''):: '(min_over_time(gpu_seconds_to_oom%(s)s{%(m)s}[%(gap)s]%(at)s) or min_over_time(gpu_mig_seconds_to_oom%(s)s{%(m)s}[%(gap)s]%(at)s))' % { s: suffix, m: matchers, gap: config.scrapeGap, at: at },

  // chosen is what an expression on memories has of those that the namespaces and pods that are chosen use.
  chosen(expr):: '(%s)\nand on (%s) (%s)' % [expr, q.domainBy, 'gpu_memory_used_bytes{%(owner)s} or gpu_mig_memory_used_bytes{%(owner)s} or gpu_process_info{%(owner)s}' % q.words],

  // culprit is who grows fastest of what takes part in a forecast, one for each memory: a process; or a pod or job as
  // a whole, where no process does.
  culprit(matchers, at=''):: |||
    topk by (%(by)s) (1,
      (
        gpu_process_leak_rate_bytes_per_second{%(m)s}%(at)s
        or ignoring (window)
        (gpu_process_leak_slope_bytes_per_second{%(m)s, window="%(window)s"}%(at)s and ignoring (window) gpu_process_seconds_to_oom{%(m)s}%(at)s < +Inf)
      )
      * on (%(by)s, pid) group_left (user)
      gpu_process_info{%(m)s}%(at)s
    )
    or on (%(by)s)
    label_replace(topk by (%(by)s) (1, gpu_workload_leak_rate_bytes_per_second{%(m)s}%(at)s), "process", "pod or job as a whole", "", "")
  ||| % { by: q.domainBy, m: matchers, at: at, window: config.shortestWindow },

  // orZero is 0 for what is not found where there is something to look at: no data is no good news.
  orZero(expr, of='gpu_up{%(gpu)s}'):: (expr + ' or 0 * count(' + of + ')') % q.words,

  // memory is the metric of the GPU, or of the GPU instance, that a dashboard of one of
  // them is about; at is a modifier.
  memory(suffix, at=''):: '(gpu_%(s)s{%(m)s}%(at)s or gpu_mig_%(s)s{%(m)s}%(at)s)' % { s: suffix, m: q.instance, at: at },

  // newXIDs are the XID errors of a time, those among them of a number whose series was
  // not there before, which increase does not see.
  newXIDs(range):: '(increase(gpu_xid_errors_total{%%(gpu)s}[%(r)s]) > 0 or (gpu_xid_errors_total{%%(gpu)s} > 0 unless gpu_xid_errors_total{%%(gpu)s} offset %(r)s))' % { r: range },

  // rare is the queries for what is zero as a rule: the series that are not, and one
  // where all are, so that good news do not look like missing data.
  rare(expr, legend):: [
    panel.target('%s > 0' % (expr % q.words), legend),
    panel.target('sum(%s) == 0' % (expr % q.words), 'none'),
  ],

  // worst is the queries of a timeline of what may be many: the states of those that were
  // worst in the time range, 20 at most and none that was well all the time (0), and one for all others with their
  // number. by are the labels of one of them.
  worst(state, by, legend, others)::
    local words = {
      state: std.rstripChars(state, '\n'),
      by: by,
      most: q.mostRows,
      peak: 'max by (%s) (max_over_time((%s)[$__range:$__interval] @ end()))' % [by, std.rstripChars(state, '\n')],
    };
    local shown = 'topk(%(most)d, %(peak)s > 0)' % words;
    [
      panel.target('(%s) and on (%s) %s' % [words.state, by, shown], legend),
      panel.target(
        // Grafana shows no text of ours where a timeline has no series at all.
        'max((%(state)s) unless on (%(by)s) %(shown)s) * on () group_left (others) count_values("others", count(%(peak)s unless on (%(by)s) %(shown)s))\nor on ()\nvector(-1) unless on () (%(state)s)'
        % (words { shown: shown }),
        '{{others}} ' + others
      ),
    ],
  mostRows: 20,
  noState: { '-1': { text: 'no data', color: '#7b8087' } },

  // largest selects the processes of a GPU that held most in the time range, as many as a timeline has rows for.
  largest(metric, by):: 'topk(%d, max by (%s) (max_over_time(%s{%s}[$__range] @ end())))' % [q.mostRows, by, metric, q.part],

  // coded turns states that are labels into numbers: codes is a list of [code, value
  // of the label]. Where several hold, the last of the list is shown.
  coded(metric, matchers, label, codes, by, at='')::
    'max by (%s) (\n%s\n)' % [by, std.join('\nor\n', [
      '  %d * (%s{%s, %s="%s"}%s > 0)' % [c[0], metric, matchers, label, c[1], at]
      for c in codes
    ])],
}
