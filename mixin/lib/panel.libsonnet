// The kinds of panel that the dashboards are made of, and their layout. Nothing here
// knows of the exporter.
{
  local datasource = { type: 'prometheus', uid: '${datasource}' },

  // target is one query over the time range; a legend is a format such as '{{gpu}}'.
  target(expr, legend):: {
    datasource: datasource,
    editorMode: 'code',
    expr: std.stripChars(expr, ' \n'),
    legendFormat: legend,
    range: true,
  },

  // instant is one query at the end of the time range.
  instant(expr, legend='')::
    self.target(expr, legend) { range: false, instant: true },

  local panel(type, title, description, unit, targets) = {
    type: type,
    // Panels without a version are taken for those of Grafana 6, and migrated.
    pluginVersion: '10.0.0',
    title: title,
    description: description,
    datasource: datasource,
    targets: std.mapWithIndex(function(i, t) t { refId: std.char(std.codepoint('A') + i) }, targets),
    fieldConfig: { defaults: { unit: unit }, overrides: [] },
  },

  // steps makes thresholds of [value, color]; the first is from null.
  steps(steps)::
    { mode: 'absolute', steps: [{ value: s[0], color: s[1] } for s in steps] },

  // thresholds, mapped, noValue, decimals and bounds are added to a panel.
  thresholds(steps):: { fieldConfig+: { defaults+: { thresholds: $.steps(steps), color: { mode: 'thresholds' } } } },
  mapped(mappings):: { fieldConfig+: { defaults+: { mappings: mappings } } },
  noValue(text):: { fieldConfig+: { defaults+: { noValue: text } } },
  decimals(n):: { fieldConfig+: { defaults+: { decimals: n } } },
  min(value):: { fieldConfig+: { defaults+: { min: value } } },
  ratio:: { fieldConfig+: { defaults+: { min: 0, max: 1 } } },
  // count is for whole numbers; counts for an axis of them, which 0 alone would
  // stretch to 100.
  count:: self.min(0) + self.decimals(0),
  counts:: self.count { fieldConfig+: { defaults+: { custom+: { axisSoftMax: 1 } } } },

  // override sets properties, an object of their ids, for the fields of one name.
  override(name, properties):: { fieldConfig+: { overrides+: [{
    matcher: { id: 'byName', options: name },
    properties: [{ id: id, value: properties[id] } for id in std.objectFields(properties)],
  }] } },

  // overrideMatching is override for all names that a regular expression matches.
  overrideMatching(regexp, properties):: { fieldConfig+: { overrides+: [{
    matcher: { id: 'byRegexp', options: '/%s/' % regexp },
    properties: [{ id: id, value: properties[id] } for id in std.objectFields(properties)],
  }] } },

  // valueMapping shows text for values: an object of { text, color }.
  valueMapping(options):: {
    type: 'value',
    options: { [v]: { index: 0 } + options[v] for v in std.objectFields(options) },
  },

  // infinity is what is not foretold, which is no news: an alert may fire on what was.
  infinity:: self.valueMapping({ Infinity: { text: '–', color: 'text' } }),

  local line = {
    drawStyle: 'line',
    lineWidth: 1,
    fillOpacity: 0,
    showPoints: 'auto',
    pointSize: 4,
    spanNulls: false,
    axisBorderShow: false,
  },

  // A tick of an axis that lies between whole numbers has no value, and would show what noValue says of a panel without
  // data; a zero-width space shows nothing and, unlike a blank, is no 0.
  timeSeries(title, description, unit, targets)::
    panel('timeseries', title, description, unit, targets) + self.overrideMatching('.*', { noValue: std.char(8203) }) {
      fieldConfig+: { defaults+: { custom: line, color: { mode: 'palette-classic' } } },
      options: {
        legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
        tooltip: { mode: 'multi', sort: 'desc' },
      },
    },

  // coarse asks for few points: for what may be thousands of nodes, because Prometheus refuses a query that holds too many samples
  // at once (--query.max-samples). bounded is for states, which are worth no more, and for graphs of some thousand nodes.
  coarse:: { maxDataPoints: 72 },
  bounded:: { maxDataPoints: 240 },

  // listed has a legend for many series, those that are highest now first.
  listed:: { options+: {
    legend: { showLegend: true, displayMode: 'table', placement: 'right', calcs: ['lastNotNull'], sortBy: 'Last *', sortDesc: true },
    tooltip: { mode: 'single', sort: 'none' },
  } },

  // stacked and bars are for time series that add up, and that are counts.
  stacked:: { fieldConfig+: { defaults+: { custom+: { fillOpacity: 30, lineWidth: 1, stacking: { mode: 'normal', group: 'A' } } } } },
  bars:: { fieldConfig+: { defaults+: { custom+: { drawStyle: 'bars', fillOpacity: 60, lineWidth: 0, stacking: { mode: 'normal', group: 'A' } } } } },
  stepped:: { fieldConfig+: { defaults+: { custom+: { lineInterpolation: 'stepAfter' } } } },
  // limits draws the thresholds as dashed lines.
  limits(steps):: { fieldConfig+: { defaults+: { thresholds: $.steps(steps), custom+: { thresholdsStyle: { mode: 'dashed' } } } } },

  // stat shows one value of each query, or its name.
  stat(title, description, unit, targets, steps)::
    panel('stat', title, description, unit, targets) + self.thresholds(steps) {
      options: {
        colorMode: 'value',
        graphMode: 'none',
        justifyMode: 'auto',
        orientation: 'auto',
        textMode: 'auto',
        wideLayout: true,
        showPercentChange: false,
        percentChangeColorMode: 'standard',
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      },
    },

  // named shows the names of the series in place of their values.
  named:: { options+: { textMode: 'name' } },
  // withNames shows both.
  withNames:: { options+: { textMode: 'value_and_name', orientation: 'vertical' } },

  // timeline shows states over time: values that are mapped to text and color.
  timeline(title, description, targets, mappings)::
    panel('state-timeline', title, description, 'none', targets) + self.mapped(mappings) {
      // In the mode of thresholds Grafana shows no state: its legend has the steps, and what is merged is the number
      // without its mapping (grafana#41075, #71804).
      fieldConfig+: { defaults+: {
        color: { mode: 'fixed', fixedColor: 'text' },
        custom: { fillOpacity: 80, lineWidth: 0, spanNulls: false },
      } },
      options: {
        alignValue: 'left',
        mergeValues: true,
        rowHeight: 0.85,
        showValue: 'auto',
        legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
        tooltip: { mode: 'single', sort: 'none' },
      },
    },

  // column is one column of a table: a label of the series, or the letter of a query
  // for its value. title heads it, and properties are those of its cells.
  column(field, title, properties={}):: { field: field, title: title, properties: properties },

  // table shows the series now, one row for each set of labels; columns are in their
  // order, and labels that none of them names are left out. sort heads the column by
  // which the rows are sorted. empty is what it says without a row.
  table(title, description, targets, columns, sort, empty, desc=false)::
    // Rows of several queries are merged where all labels agree, the name too: adding
    // 0 takes it away.
    local nameless(t) = t { expr: '(\n%s\n) + 0' % t.expr, format: 'table' };
    local instants = [if std.length(targets) > 1 then nameless(t) else t { format: 'table' } for t in targets];
    local name(c) =
      if std.length(c.field) > 1 then c.field
      else if std.length(targets) > 1 then 'Value #' + c.field
      else 'Value';
    local index(c) = std.find(c, columns)[0];
    panel('table', title, description, 'short', instants) {
      fieldConfig+: {
        // Without a unit: labels such as a PID would be taken for numbers.
        defaults: { noValue: empty, custom: { align: 'auto', filterable: false, cellOptions: { type: 'auto' }, inspect: false } },
        overrides: [
          // An empty cell is not an empty table.
          { matcher: { id: 'byRegexp', options: '/.*/' }, properties: [{ id: 'noValue', value: '–' }] },
        ] + [
          {
            matcher: { id: 'byName', options: c.title },
            properties: [{ id: id, value: c.properties[id] } for id in std.objectFields(c.properties)],
          }
          for c in columns
          if std.length(c.properties) > 0
        ],
      },
      transformations: [
        { id: 'merge', options: {} },
        { id: 'filterFieldsByName', options: { include: { names: [name(c) for c in columns] } } },
        { id: 'organize', options: {
          excludeByName: {},
          indexByName: { [name(c)]: index(c) for c in columns },
          renameByName: { [name(c)]: c.title for c in columns },
        } },
      ],
      options: { showHeader: true, frameIndex: 0, cellHeight: 'sm', sortBy: [{ displayName: sort, desc: desc }] },
    },

  // colored and gauge are properties of cells.
  colored(steps):: { thresholds: $.steps(steps), color: { mode: 'thresholds' }, 'custom.cellOptions': { type: 'color-text' } },
  gauge(steps):: {
    thresholds: $.steps(steps),
    color: { mode: 'thresholds' },
    'custom.cellOptions': { type: 'gauge', mode: 'basic', valueDisplayMode: 'text' },
    min: 0,
    max: 1,
    unit: 'percentunit',
    decimals: 0,
  },

  // grid lays panels out from the top. Each row is a height and its panels, which
  // share the 24 columns by their widths, or equally. A row with a title is a heading;
  // with `rows` it is closed and holds them.
  grid(rows)::
    local width(row, i) =
      if std.objectHas(row, 'widths') then row.widths[i] else std.floor(24 / std.length(row.panels));
    local left(row, i) = std.sum([width(row, k) for k in std.range(0, i - 1)]);
    local place(row, y, id) = std.mapWithIndex(function(i, p) p {
      id: id + i,
      gridPos: { x: left(row, i), y: y, w: width(row, i), h: row.height },
    }, row.panels);
    local add(acc, row) =
      if std.objectHas(row, 'title') then
        local inside = layout(if std.objectHas(row, 'rows') then row.rows else [], acc.y + 1, acc.id + 1);
        {
          y: acc.y + 1,
          id: inside.id,
          panels: acc.panels + [{
            id: acc.id,
            type: 'row',
            title: row.title,
            collapsed: std.objectHas(row, 'rows'),
            panels: inside.panels,
            gridPos: { x: 0, y: acc.y, w: 24, h: 1 },
          }],
        }
      else {
        y: acc.y + row.height,
        id: acc.id + std.length(row.panels),
        panels: acc.panels + place(row, acc.y, acc.id),
      },
          layout(rows, y, id) = std.foldl(add, rows, { y: y, id: id, panels: [] });
    layout(rows, 0, 1).panels,
}
