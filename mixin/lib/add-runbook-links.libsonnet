// Gives each alert the URL of its heading in the runbook.
{
  _config+:: { runbookURLPattern: error 'must provide runbookURLPattern' },

  local withURL(rule) =
    if std.objectHas(rule, 'alert') then
      rule { annotations+: { runbook_url: $._config.runbookURLPattern % std.asciiLower(rule.alert) } }
    else rule,

  prometheusAlerts+:: {
    groups: [
      group { rules: [withURL(rule) for rule in group.rules] }
      for group in super.groups
    ],
  },
}
