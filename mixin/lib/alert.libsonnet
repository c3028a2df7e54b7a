// What the alerts share: how they select and join series, and how long they wait.
function(config) {
  local join = '%s, %s' % [config.clusterLabel, config.nodeLabel],

  // The labels that one GPU has in all its series, and those of one memory: a GPU,
  // or a GPU instance of it. Indices change; nodes of a simulation share UUIDs.
  gpu: '%s, uuid' % join,
  domain: '%s, uuid, gpu_instance' % join,
  node: join,

  // labels puts the labels of the target into a selector, with others.
  select(metric, matchers=[]): '%s{%s}' % [metric, std.join(', ', [config.exporterSelector] + matchers)],

  // last is the last sample within the scrape gap, however the last scrape went.
  last(metric, matchers=[]): 'last_over_time(%s[%s])' % [self.select(metric, matchers), config.scrapeGap],

  // seldom is an expression for what is 1 as a rule and was so in less than half of the samples of late: what succeeds by
  // luck ends nothing. What is new has a while to begin, and what is well again, or gone, is no matter any more.
  seldom(metric): local of = self.select(metric); |||
    avg_over_time(%(metric)s[%(range)s]) < 0.5
    and %(metric)s offset %(begins)s >= 0
    and min_over_time(%(metric)s[%(well)s]) == 0
  ||| % { metric: of, range: config.absenceRange, begins: config.newFor, well: config.wellAfter },

  // down are the GPUs that no scrape within the gap found up: a record, which the group gpu-exporter makes.
  down: 'gpu:gpu_up:none',

  // both is an expression on GPUs and on GPU instances.
  both(f): '%s or %s' % [f('gpu_'), f('gpu_mig_')],

  // alert makes a rule. dashboard is the file of the one that shows why. A page outlives a node that is not scraped for a while.
  alert(name, severity, expr, wait, summary, description, dashboard='leak.json', keep=if severity == 'critical' then config.keepFiringFor else '0s'):: {
    alert: name,
    expr: expr,
    [if wait != '0s' then 'for']: wait,
    [if keep != '0s' then 'keep_firing_for']: keep,
    labels: { severity: severity },
    annotations: {
      summary: summary,
      description: description,
      // Rules see no external labels, so a cluster that is missing here may be there in
      // Grafana: then the dashboard shows all.
      [if dashboard == 'leak.json' && config.predictURLPattern != '' then 'predict_url']: '{{ if and (match ":[0-9]+$" $labels.%s) (not (match ":(%s)$" $labels.%s)) }}%s{{ end }}' % [config.nodeLabel, config.sourcePorts, config.nodeLabel, config.predictURLPattern % ('{{ $labels.%s }}' % config.nodeLabel) + '#{{ $labels.uuid }}{{ with $labels.gpu_instance }}-mig-{{ . }}{{ end }}'],
      [if config.grafanaURL != '' then 'dashboard_url']:
        '%s/d/%s?{{ with $labels.%s }}var-cluster={{ . }}&{{ end }}var-node={{ $labels.%s }}' %
        [config.grafanaURL, std.md5(dashboard), config.clusterLabel, config.nodeLabel] +
        '{{ with $labels.uuid }}&var-gpu={{ . }}{{ end }}{{ with $labels.gpu_instance }}&var-gpu_instance={{ . }}{{ end }}',
    },
  },
}
