// What all dashboards share. The uid is that of the file, so that a link to a
// dashboard outlives its upgrade.
{
  local config = $._config,
  grafanaDashboards::
    local dashboards = super.grafanaDashboards;
    {
      [file]: {
        uid: std.md5(file),
        tags: config.dashboardTags,
        time: { from: config.dashboardInterval, to: 'now' },
        refresh: config.dashboardRefresh,
        timezone: '',
        editable: true,
        graphTooltip: 1,
        schemaVersion: 39,
      } + dashboards[file]
      for file in std.objectFields(dashboards)
    },
}
