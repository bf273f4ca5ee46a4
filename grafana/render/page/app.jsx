// Draws one dashboard, at the size that Grafana gives its panels.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { ThemeContext } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, PanelChrome } from '@grafana/ui';
import { theme } from './fields.js';
import { load } from './frames.js';
import { Body } from './panels.jsx';
import { builtIn, range, stepFor } from './prometheus.js';
import { drawn, problems, settings } from './settings.js';
import { chooseAll, interpolate } from './variables.js';

const [ROW, GAP, HEAD] = [30, 8, 88];
const cell = settings.width / 24;

class Guard extends React.Component {
  state = {};
  static getDerivedStateFromError(error) {
    return { error };
  }
  componentDidCatch(error) {
    problems.push(`${this.props.title}: ${error.stack}`);
  }
  render() {
    return this.state.error ? <pre>{String(this.state.error)}</pre> : this.props.children;
  }
}

const sizeOf = ({ gridPos: { x, y, w, h } }) => ({
  left: x * cell,
  top: HEAD + y * (ROW + GAP),
  width: w * cell - GAP,
  height: h * (ROW + GAP) - GAP,
});

async function prepared(panel) {
  if (panel.type === 'row') return { panel };
  try {
    const frames = await load(panel, Math.round(sizeOf(panel).width));
    drawn.push({
      title: panel.title,
      type: panel.type,
      frames: frames.length,
      rows: frames.reduce((sum, frame) => sum + frame.length, 0),
    });
    return { panel, frames };
  } catch (error) {
    problems.push(`${panel.title}: ${error}`);
    return { panel, frames: [] };
  }
}

async function marksOf(annotations) {
  const step = stepFor(settings.width);
  const found = await Promise.all(
    annotations.map(async ({ expr, iconColor }) => {
      const result = await range(interpolate(expr, builtIn(step)), step);
      return result.flatMap(({ values }) =>
        values
          .map(([time]) => time * 1000)
          .filter((time, index, all) => index === 0 || time - all[index - 1] > 2000 * step)
          .map((time) => ({ time, colour: iconColor })),
      );
    }),
  );
  return found.flat();
}

function Head({ dashboard, bar }) {
  const box = {
    background: theme.colors.background.secondary,
    border: `1px solid ${theme.colors.border.weak}`,
    borderRadius: 2,
    padding: '4px 8px',
  };
  return (
    <div style={{ height: HEAD, paddingTop: 8 }}>
      <div style={{ fontSize: 18, fontWeight: 500, marginBottom: 10 }}>{dashboard.title}</div>
      <div style={{ display: 'flex', gap: 10, fontSize: 12 }}>
        {bar.map(([name, value]) => (
          <span key={name} style={box}>
            <span style={{ color: theme.colors.text.secondary, marginRight: 8 }}>{name}</span>
            {value || '–'}
          </span>
        ))}
      </div>
    </div>
  );
}

function Row({ panel }) {
  return (
    <div style={{ fontSize: 15, fontWeight: 500, lineHeight: `${ROW}px` }}>
      {panel.collapsed ? '› ' : '⌄ '}
      {panel.title}
    </div>
  );
}

function Panel({ panel, frames, marks }) {
  const { width, height } = sizeOf(panel);
  return (
    <PanelChrome
      title={interpolate(panel.title)}
      description={panel.description}
      width={width}
      height={height}
    >
      {(w, h) => (
        <Guard title={panel.title}>
          <Body panel={panel} frames={frames} width={w} height={h} marks={marks} />
        </Guard>
      )}
    </PanelChrome>
  );
}

async function main() {
  await initPluginTranslations('grafana', []);
  const { dashboard } = settings;
  const bar = await chooseAll(dashboard.templating.list);
  const marks = await marksOf(dashboard.annotations.list);
  const panels = await Promise.all(dashboard.panels.map(prepared));
  const bottom = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  createRoot(document.getElementById('root')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ position: 'relative', width: settings.width, height: HEAD + bottom * (ROW + GAP) + GAP }}>
        <Head dashboard={dashboard} bar={bar.filter(([name]) => name !== 'Data source')} />
        {panels.map(({ panel, frames }) => {
          const { left, top } = sizeOf(panel);
          return (
            <div key={panel.id} style={{ position: 'absolute', left, top }}>
              {panel.type === 'row' ? (
                <Row panel={panel} />
              ) : (
                <Panel panel={panel} frames={frames} marks={marks} />
              )}
            </div>
          );
        })}
      </div>
    </ThemeContext.Provider>,
  );
}

main()
  .catch((error) => problems.push(String(error.stack)))
  .finally(() => setTimeout(() => (document.title = 'done'), 1500));
