// One component for each kind of panel. Time series, figures and tables are Grafana's own.
import React from 'react';
import { dateTime, getFieldDisplayValues } from '@grafana/data';
import { BigValue, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { BarChart, Heatmap, Scatter, StateTimeline } from './drawings.jsx';
import { withLooks, theme } from './fields.js';
import { settings } from './settings.js';

const timeRange = {
  from: dateTime(settings.from),
  to: dateTime(settings.to),
  raw: { from: 'now-1h', to: 'now' },
};

// Restarts, other numbers of draft tokens, alerts: a dashed line on every graph, as Grafana draws them.
function Marks({ config, marks }) {
  config.addHook('draw', (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const { time, colour } of marks) {
      const x = plot.valToPos(time, 'x', true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.strokeStyle = theme.visualization.getColorByName(colour);
      ctx.lineWidth = 1.5;
      ctx.setLineDash([5, 5]);
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  });
  return null;
}

function Lines({ panel, frames, width, height, marks }) {
  return (
    <TimeSeries
      frames={frames}
      width={width}
      height={height}
      timeRange={timeRange}
      timeZone="utc"
      legend={panel.options.legend}
      options={{}}
      structureRev={1}
    >
      {(config) => <Marks config={config} marks={marks} />}
    </TimeSeries>
  );
}

function Figures({ panel, frames, width, height }) {
  const { graphMode, colorMode, textMode, justifyMode, orientation, reduceOptions } = panel.options;
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data: frames,
    timeZone: 'utc',
    sparkline: graphMode !== 'none',
  });
  const upright = orientation === 'horizontal';
  const [w, h] = upright ? [width, height / values.length] : [width / values.length, height];
  return (
    <div style={{ display: 'flex', flexDirection: upright ? 'column' : 'row', gap: 4 }}>
      {values.map((value, index) => (
        <BigValue
          key={index}
          value={value.display}
          sparkline={graphMode === 'none' ? undefined : value.sparkline}
          count={values.length}
          width={w - 4}
          height={h - (upright ? 4 : 0)}
          theme={theme}
          colorMode={colorMode}
          graphMode={graphMode}
          textMode={textMode}
          justifyMode={justifyMode}
          wideLayout={panel.options.wideLayout}
          text={panel.options.text ?? {}}
        />
      ))}
    </div>
  );
}

function Table({ panel, frames: [frame], width, height }) {
  const sorted = (panel.options.sortBy ?? []).filter(({ displayName }) =>
    frame.fields.some((field) => field.state?.displayName === displayName),
  );
  return (
    <TableNG
      data={frame}
      width={width}
      height={height}
      sortBy={sorted}
      sortByBehavior="initial"
      cellHeight={panel.options.cellHeight}
      enableVirtualization={false}
      timeRange={timeRange}
      structureRev={1}
    />
  );
}

const KINDS = {
  timeseries: Lines,
  stat: Figures,
  table: Table,
  barchart: BarChart,
  heatmap: Heatmap,
  'state-timeline': StateTimeline,
  xychart: Scatter,
};

const holds = (frame) => frame.length > 0 && frame.fields.some((field) => field.type === 'number');

export function Body({ panel, frames, width, height, marks }) {
  const Kind = KINDS[panel.type];
  const looked = withLooks(panel, frames.filter(holds));
  if (!looked.length && panel.type !== 'stat') {
    return (
      <div
        style={{ width, height, display: 'grid', placeItems: 'center', color: theme.colors.text.secondary }}
      >
        {panel.fieldConfig.defaults.noValue}
      </div>
    );
  }
  return <Kind panel={panel} frames={looked} width={width} height={height} marks={marks} />;
}
