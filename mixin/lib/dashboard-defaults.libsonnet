// What all dashboards share. The uid is that of the file, so that a link to a
// dashboard outlives its upgrade.
local panel = import 'panel.libsonnet';

{
  _config+:: {
    dashboardTags: error 'must provide dashboardTags',
    dashboardInterval: error 'must provide dashboardInterval',
    dashboardRefresh: error 'must provide dashboardRefresh',
    dashboardTimezone: error 'must provide dashboardTimezone',
  },

  local config = $._config,

  // The dashboard of one GPU chooses a node, a GPU, and a time range that ends in the
  // future, which the others do not have: a link from or to it takes less along. To it the node goes along
  // that is full first of those that are chosen.
  local single = 'leak.json',
  local link(dashboards, from, to) = {
    type: 'link',
    title: dashboards[to].title,
    tooltip: dashboards[to].description,
    url: '/d/%s%s' % [std.md5(to), if to == single then '?${datasource:queryparam}&${cluster:queryparam}' + (if from != single then '&var-node=${urgent_node}' else '') else ''],
    icon: 'dashboard',
    keepTime: from != single && to != single,
    includeVars: to != single,
    targetBlank: false,
    asDropdown: false,
    tags: [],
  },

  // Grafana asks for a point per pixel, which is too much where all nodes are chosen.
  local thinned(panels) = [
    if std.objectHas(p, 'panels') then p { panels: thinned(super.panels) }
    else if p.type == 'timeseries' then panel.bounded + p
    else p
    for p in panels
  ],

  grafanaDashboards::
    local dashboards = super.grafanaDashboards;
    {
      [file]: {
        uid: std.md5(file),
        tags: config.dashboardTags,
        time: { from: config.dashboardInterval, to: 'now' },
        refresh: config.dashboardRefresh,
        timezone: config.dashboardTimezone,
        editable: true,
        graphTooltip: 1,
        schemaVersion: 39,
        annotations: { list: [] },
        links: [link(dashboards, file, to) for to in std.objectFields(dashboards) if to != file],
      } + dashboards[file] + (if file == single then {} else { panels: thinned(super.panels) })
      for file in std.objectFields(dashboards)
    },
}
