// Draws the dashboard from what its tests have left in target/, with Grafana's own components: see CONTRIBUTING.md.
// picture.html?nodes=500&mode=dark
import { applyFieldOverrides, createTheme, dateTime, getDisplayProcessor, getDisplayValueAlignmentFactors, toDataFrame } from '@grafana/data';
import {
  BarGauge, BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, GlobalStyles, PanelChrome, Table, ThemeContext, TimeSeries,
} from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import 'uplot/dist/uPlot.min.css';
import one from '../../target/dashboard.json';
import many from '../../target/dashboard-500.json';

const wanted = new URLSearchParams(location.search);
const panels = wanted.get('nodes') === '500' ? many : one;
const theme = createTheme({ colors: { mode: wanted.get('mode') ?? 'light' } });
const [COLUMN, ROW, GAP] = [58, 34, 8];
const noon = Date.UTC(2026, 0, 1, 12) / 1000;
const times = panels.flatMap((panel) => (panel.data ?? []).flat().flatMap((series) => series.values.map(([at]) => at)));
const first = times.reduce((a, b) => Math.min(a, b));
const last = times.reduce((a, b) => Math.max(a, b));
const range = { from: dateTime(noon * 1000), to: dateTime((noon + last - first) * 1000) };
range.raw = range;

const number = (text) => (text === 'NaN' ? null : Number(text));

// A field with the panel's configuration, and what its overrides say of a field of this name.
function field(name, type, values, { fieldConfig }) {
  const config = { color: { mode: 'palette-classic' }, ...structuredClone(fieldConfig.defaults), displayName: name };
  config.custom = { lineWidth: 1.5, ...config.custom };
  for (const { matcher, properties } of fieldConfig.overrides) {
    for (const { id, value } of matcher.options === name ? properties : []) {
      const [path, key] = id.startsWith('custom.') ? [config.custom, id.slice(7)] : [config, id];
      path[key] = value;
    }
  }
  if (config.thresholds && !fieldConfig.defaults.color && config.color.mode !== 'fixed') {
    config.color = { mode: 'thresholds' };
  }
  config.thresholds?.steps.forEach((step) => { step.value ??= -Infinity; });
  return { name, type, values, config };
}

// The fields know how to show their values only after this.
function finished(data) {
  const shown = applyFieldOverrides({ data, fieldConfig: { defaults: {}, overrides: [] }, theme, replaceVariables: (text) => text });
  shown.forEach((frame, index) => frame.fields.forEach((each, at) => {
    each.config = data[index].fields[at].config;
    each.state = { ...each.state, seriesIndex: index };
    each.display = getDisplayProcessor({ field: each, theme });
  }));
  return shown;
}

// A frame for each series, with the name that `legendFormat` gives it.
function frames(panel) {
  const { targets, data } = panel;
  const all = data.flatMap((series, query) => (targets[query].format === 'heatmap' ? buckets(series) : series).map(({ metric, values }) => {
    const name = targets[query].legendFormat.replace(/{{(\w+)}}/g, (_, label) => metric[label]);
    return toDataFrame({ fields: [
      { name: 'Time', type: 'time', values: values.map(([at]) => (noon + at - first) * 1000), config: {} },
      field(name, 'number', values.map(([, text]) => number(text)), panel),
    ] });
  }));
  return finished(all);
}

// Grafana's form `heatmap`: buckets in order, each without those below.
function buckets(series) {
  const sorted = series.toSorted((a, b) => Number(a.metric.le.replace('+Inf', 'Infinity')) - Number(b.metric.le.replace('+Inf', 'Infinity')));
  const newest = sorted.map(({ values }) => values.at(-1));
  return sorted.map(({ metric }, index) => {
    const [at, count] = newest[index];
    return { metric, values: [[at, String(count - (index && newest[index - 1][1]))]] };
  });
}

// One row for each node, as the panel's transformations have them. Instant queries show only what is there at the end.
function table(panel) {
  const { excludeByName, indexByName, renameByName } = panel.transformations.find(({ id }) => id === 'organize').options;
  const rows = new Map();
  panel.data.forEach((data, query) => data.filter(({ values }) => values.at(-1)[0] === last).forEach(({ metric, values }) => {
    const row = rows.get(metric.node) ?? {};
    rows.set(metric.node, Object.assign(row, metric, { [`Value #${panel.targets[query].refId}`]: number(values.at(-1)[1]) }));
  }));
  const columns = Object.keys(indexByName).filter((name) => !excludeByName[name]).toSorted((a, b) => indexByName[a] - indexByName[b]);
  const [sort] = panel.options.sortBy;
  const sorted = [...rows.values()].toSorted((a, b) => {
    const column = columns.find((name) => renameByName[name] === sort.displayName);
    return (b[column] - a[column]) * (sort.desc ? 1 : -1);
  });
  const fields = columns.map((name) => {
    const values = sorted.map((row) => row[name] ?? null);
    return field(renameByName[name], values.every((value) => value === null || typeof value === 'number') ? 'number' : 'string', values, panel);
  });
  return finished([toDataFrame({ fields })])[0];
}

function newest(frame) {
  const shown = frame.fields[1];
  return { ...shown.display(shown.values.at(-1)), title: shown.config.displayName, field: shown };
}

function Stat({ panel, all, width, height }) {
  const part = { width: Math.floor(width / all.length), height };
  const textMode = panel.options.textMode === 'value' ? BigValueTextMode.Value : BigValueTextMode.ValueAndName;
  const alignmentFactors = getDisplayValueAlignmentFactors(all.map((frame) => ({ display: newest(frame) })));
  return <div style={{ display: 'flex' }}>
    {all.map((frame, index) => <BigValue key={index} {...part} theme={theme} value={newest(frame)} textMode={textMode}
      colorMode={BigValueColorMode.Value} graphMode={BigValueGraphMode.None} justifyMode={BigValueJustifyMode.Center} count={all.length} alignmentFactors={alignmentFactors} />)}
  </div>;
}

function Bars({ panel, all, width, height }) {
  const { text, maxVizHeight } = panel.options;
  const alignmentFactors = getDisplayValueAlignmentFactors(all.map((frame) => ({ display: newest(frame) })));
  const max = Math.max(1, ...all.map((frame) => newest(frame).numeric));
  return <div style={{ display: 'flex', flexDirection: 'column', gap: 2 }}>
    {all.map((frame, index) => <BarGauge key={index} width={width} height={Math.min(maxVizHeight, height / all.length - 2)} theme={theme} value={newest(frame)} text={text}
      field={{ min: 0, max }} display={frame.fields[1].display} alignmentFactors={alignmentFactors} orientation="horizontal" displayMode="basic" />)}
  </div>;
}

function Content({ panel, width, height }) {
  if (panel.type === 'table') {
    return <Table data={table(panel)} {...{ width, height }} cellHeight="sm" initialSortBy={panel.options.sortBy} />;
  }
  let all = frames(panel);
  if (all.length === 0) {
    return <div style={{ height, display: 'grid', placeContent: 'center', color: theme.colors.text.secondary }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;
  }
  if (panel.type === 'timeseries') {
    const legend = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] };
    return <TimeSeries {...{ width, height, legend, theme }} frames={all} timeRange={range} timeZone="utc" />;
  }
  if (panel.targets[0].expr.startsWith('topk')) {
    all = all.filter((frame) => frame.fields[0].values.at(-1) === (noon + last - first) * 1000).toSorted((a, b) => newest(b).numeric - newest(a).numeric);
  }
  return panel.type === 'stat' ? <Stat {...{ panel, all, width, height }} /> : <Bars {...{ panel, all, width, height }} />;
}

function Panel({ panel }) {
  const { x, y, w, h } = panel.gridPos;
  const [width, height] = [w * COLUMN - GAP, h * ROW - GAP];
  const place = { position: 'absolute', left: x * COLUMN + GAP, top: y * ROW + GAP };
  if (panel.type === 'row') {
    return <div style={{ ...place, height, display: 'flex', alignItems: 'end', fontWeight: 500 }}>⌄ {panel.title}</div>;
  }
  return <div style={place}>
    <PanelChrome title={panel.title} description={panel.description} {...{ width, height }} padding="md">
      {(innerWidth, innerHeight) => <Content panel={panel} width={innerWidth} height={innerHeight} />}
    </PanelChrome>
  </div>;
}

document.body.style.cssText = `margin: 0; font-family: ${theme.typography.fontFamily}; font-size: 14px; color: ${theme.colors.text.primary}; background: ${theme.colors.background.canvas}`;
createRoot(document.body.appendChild(document.createElement('div'))).render(
  <ThemeContext.Provider value={theme}><GlobalStyles />{panels.map((panel) => <Panel key={panel.id} panel={panel} />)}</ThemeContext.Provider>,
);
