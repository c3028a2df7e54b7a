// The few kinds of panel that the dashboards are made of, and their layout.
{
  local datasource = { type: 'prometheus', uid: '$datasource' },

  // target is one query of a panel; a legend is a format such as '{{gpu}}'.
  target(expr, legend): {
    datasource: datasource,
    expr: expr,
    legendFormat: legend,
  },

  local panel(type, title, description, unit, targets) = {
    type: type,
    title: title,
    description: description,
    datasource: datasource,
    targets: std.mapWithIndex(function(i, t) t { refId: std.char(std.codepoint('A') + i) }, targets),
    fieldConfig: { defaults: { unit: unit }, overrides: [] },
  },

  timeSeries(title, description, unit, targets)::
    panel('timeseries', title, description, unit, targets) {
      fieldConfig+: { defaults+: { custom: { fillOpacity: 0, showPoints: 'never' } } },
      options: {
        legend: { displayMode: 'table', placement: 'bottom', calcs: ['lastNotNull', 'max'] },
        tooltip: { mode: 'multi', sort: 'desc' },
      },
    },

  // A stat shows the last value; steps are [value, color], the first from null.
  stat(title, description, unit, expr, steps)::
    panel('stat', title, description, unit, [$.target(expr, title) { instant: true }]) {
      fieldConfig+: {
        defaults+: {
          color: { mode: 'thresholds' },
          thresholds: { mode: 'absolute', steps: [{ value: s[0], color: s[1] } for s in steps] },
        },
      },
      options: { colorMode: 'value', graphMode: 'none', reduceOptions: { calcs: ['lastNotNull'] } },
    },

  // A table shows the labels of the series now; columns is their order.
  table(title, description, unit, expr, columns)::
    panel('table', title, description, unit, [$.target(expr, '') { instant: true, format: 'table' }]) {
      transformations: [{
        id: 'filterFieldsByName',
        options: { include: { names: columns + ['Value'] } },
      }, {
        id: 'organize',
        options: { indexByName: { [columns[i]]: i for i in std.range(0, std.length(columns) - 1) } },
      }],
    },

  // grid lays rows of panels out: each row is a height and its panels, which
  // share the 24 columns equally.
  grid(rows)::
    local place(acc, row) =
      local width = std.floor(24 / std.length(row.panels));
      {
        y: acc.y + row.height,
        panels: acc.panels + std.mapWithIndex(function(i, p) p {
          id: std.length(acc.panels) + i + 1,
          gridPos: { x: i * width, y: acc.y, w: width, h: row.height },
        }, row.panels),
      };
    std.foldl(place, rows, { y: 0, panels: [] }).panels,

  // queryVariable offers the values of a label.
  queryVariable(name, label, query):: {
    type: 'query',
    name: name,
    label: label,
    datasource: datasource,
    query: { query: query, refId: name },
    includeAll: true,
    allValue: '.*',
    multi: true,
    refresh: 2,
    sort: 1,
    current: { text: 'All', value: '$__all' },
  },

  datasourceVariable:: {
    type: 'datasource',
    name: 'datasource',
    label: 'Data source',
    query: 'prometheus',
    current: { text: 'default', value: 'default' },
  },
}
