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

  // told is a series that alerts read, for as long as they go on after its last sample: the scrape gap, and as long again.
  told(metric, matchers=q.gpu, at='')::
    std.join(' or ', ['last_over_time(%s{%s}[%s]%s%s)' % [metric, matchers, config.scrapeGap, at, back] for back in ['', ' offset ' + config.scrapeGap]]),

  // predicted is what the page or ticket on the end of each memory says, if there is one.
  predicted(matchers=q.gpu, at=''):: 'bottomk by (%s) (1, %s)' % [q.domainBy, q.told('gpu_predicted_oom_seconds', matchers, at)],

  // left is the same, and without it the forecast of the detector, which alerts wait with.
  left(matchers=q.gpu, at=''):: '(%s or on (%s) (gpu_seconds_to_oom{%s}%s or gpu_mig_seconds_to_oom{%s}%s))' % [q.predicted(matchers, at), q.domainBy, matchers, at, matchers, at],

  // said is what alerts say of each memory, the most urgent of it: its labels are those of the culprit, and evidence is why.
  said(matchers, at='')::
    local chain = [q.predicted(matchers, at)] + [
      'topk by (%s) (1, %s)' % [q.domainBy, q.told(metric, matchers, at)]
      for metric in ['gpu_leaking_bytes_per_second', 'gpu_memory_held_bytes', 'gpu_memory_state']
    ];
    'label_replace(label_replace(%s, "evidence", "$1", "state", "(.+)"), "evidence", "leak", "evidence", "")' % std.join('\nor on (%s) ' % q.domainBy, chain),

  // chosen is what an expression on memories has of those that the namespaces and pods that are chosen use.
  chosen(expr):: '(%s)\nand on (%s) (%s)' % [expr, q.domainBy, 'gpu_memory_used_bytes{%(owner)s} or gpu_mig_memory_used_bytes{%(owner)s} or gpu_process_info{%(owner)s}' % q.words],

  // orZero is 0 for what is not found where there is something to look at: no data is no good news.
  orZero(expr, of='gpu_up{%(gpu)s}'):: (expr + ' or 0 * count(' + of + ')') % q.words,

  // memory is the metric of the GPU, or of the GPU instance, that a dashboard of one of
  // them is about; at is a modifier.
  memory(suffix, at=''):: '(gpu_%(s)s{%(m)s}%(at)s or gpu_mig_%(s)s{%(m)s}%(at)s)' % { s: suffix, m: q.instance, at: at },

  // newXIDs are the XID errors of a time, those among them of a number whose series was
  // not there before, which increase does not see.
  newXIDs(range):: '(increase(gpu_xid_errors_total{%%(gpu)s}[%(r)s]) > 0 or (gpu_xid_errors_total{%%(gpu)s} > 0 unless gpu_xid_errors_total{%%(gpu)s} offset %(r)s))' % { r: range },

  // last is the last sample as alerts read it, also of a GPU that cannot be read now.
  last(metric, matchers=''):: 'last_over_time(%s{%s%s}[%s])' % [metric, self.gpu, matchers, config.scrapeGap],

  // waiting, uncorrected and throttled are the GPUs that alerts name, by what the alerts read.
  waiting: '(%s > 0 or %s == 1 or %s == 1)' % [self.last('gpu_' + s) for s in ['recovery_action', 'row_remap_pending', 'retired_pages_pending']],
  uncorrected: |||
    max by (%s) (
      %s > 0
      or increase(gpu_ecc_errors_total{%s, type="uncorrected", counter="aggregate"}[15m]) > 0
      or time() - %s < 15 * 60
    )
  ||| % [self.gpuBy, self.last('gpu_ecc_errors_total', ', type="uncorrected", counter="volatile"'), self.gpu, self.last('gpu_xid_last_timestamp_seconds', ', xid=~"48|94|95|140"')],
  local slowed = self.gpu + ', reason=~"hw_slowdown|.*_thermal_slowdown|hw_power_brake_slowdown"',
  throttled: '(gpu_clock_event_active{%(m)s} == 1 or (increase(gpu_clock_event_seconds_total{%(m)s}[15m]) / 15 / 60 or avg_over_time(gpu_clock_event_active{%(m)s}[15m])) > %(ratio)g)' % { m: slowed, ratio: config.throttleRatio },

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
