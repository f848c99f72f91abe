// Draws docs/dashboard.png from target/dashboard.json with Grafana's own components: see CONTRIBUTING.md.
import { applyFieldOverrides, createTheme, dateTime, getDisplayProcessor, toDataFrame } from '@grafana/data';
import { BarGauge, BigValue, BigValueColorMode, BigValueGraphMode, PanelChrome, ThemeContext, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import 'uplot/dist/uPlot.min.css';
import panels from '../../target/dashboard.json';

const theme = createTheme({ colors: { mode: 'light' } });
const [COLUMN, ROW, GAP] = [58, 34, 8];
const noon = Date.UTC(2026, 0, 1, 12) / 1000;
const times = panels.flatMap((panel) => panel.data.flat().flatMap((series) => series.values.map(([at]) => at)));
const [first, last] = [Math.min(...times), Math.max(...times)];
const range = { from: dateTime(noon * 1000), to: dateTime((noon + last - first) * 1000) };
range.raw = range;

// A frame for each series, with the name that `legendFormat` gives it.
function frames({ targets, data, fieldConfig }) {
  const { custom, ...defaults } = fieldConfig.defaults;
  const all = data.flatMap((series, query) => (targets[query].format === 'heatmap' ? buckets(series) : series).map(({ metric, values }) => {
    const name = targets[query].legendFormat.replace(/{{(\w+)}}/g, (_, label) => metric[label]);
    const number = (text) => (text === 'NaN' ? null : Number(text));
    return toDataFrame({ fields: [
      { name: 'Time', type: 'time', values: values.map(([at]) => (noon + at - first) * 1000) },
      { name, type: 'number', values: values.map(([, text]) => number(text)), config: { displayName: name } },
    ] });
  }));
  const config = { color: { mode: 'palette-classic' }, custom: { lineWidth: 1.5, ...custom }, ...defaults };
  const shown = applyFieldOverrides({ data: all, fieldConfig: { defaults: config, overrides: [] }, theme, replaceVariables: (text) => text });
  shown.forEach(({ fields: [, field] }, index) => {
    field.config = { ...field.config, ...config };
    field.state = { ...field.state, seriesIndex: index };
    field.display = getDisplayProcessor({ field, theme });
  });
  return shown;
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

function newest(frame) {
  const field = frame.fields[1];
  return { ...field.display(field.values.at(-1)), title: field.config.displayName, field };
}

function Content({ panel, width, height }) {
  const all = frames(panel);
  if (panel.type === 'timeseries') {
    const legend = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] };
    return <TimeSeries {...{ width, height, legend, theme }} frames={all} timeRange={range} timeZone="utc" />;
  }
  const part = panel.type === 'stat' ? { width: Math.floor(width / all.length), height } : { width, height: height / all.length - 2 };
  const max = Math.max(1, ...all.map((frame) => newest(frame).numeric));
  return <div style={{ display: 'flex', flexDirection: panel.type === 'stat' ? 'row' : 'column', gap: panel.type === 'stat' ? 0 : 2 }}>
    {all.map((frame, index) => panel.type === 'stat'
      ? <BigValue key={index} {...part} theme={theme} value={newest(frame)} colorMode={BigValueColorMode.Value} graphMode={BigValueGraphMode.None} count={all.length} />
      : <BarGauge key={index} {...part} theme={theme} value={newest(frame)} field={{ min: 0, max }} display={frame.fields[1].display} orientation="horizontal" displayMode="basic" />)}
  </div>;
}

function Panel({ panel }) {
  const { x, y, w, h } = panel.gridPos;
  const [width, height] = [w * COLUMN - GAP, h * ROW - GAP];
  return <div style={{ position: 'absolute', left: x * COLUMN + GAP, top: y * ROW + GAP }}>
    <PanelChrome title={panel.title} description={panel.description} {...{ width, height }} padding="md">
      {(innerWidth, innerHeight) => <Content panel={panel} width={innerWidth} height={innerHeight} />}
    </PanelChrome>
  </div>;
}

document.body.style.cssText = `margin: 0; font-family: ${theme.typography.fontFamily}; font-size: 14px; color: ${theme.colors.text.primary}; background: ${theme.colors.background.canvas}`;
createRoot(document.body.appendChild(document.createElement('div'))).render(
  <ThemeContext.Provider value={theme}>{panels.map((panel) => <Panel key={panel.id} panel={panel} />)}</ThemeContext.Provider>,
);
