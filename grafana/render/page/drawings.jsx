// Grafana's heatmap, state timeline, bar chart and XY chart are not among its published components: these stand in for them.
import React from 'react';
import { FALLBACK_COLOR, getFieldDisplayName, dateTimeFormat } from '@grafana/data';
import * as schemes from 'd3-scale-chromatic';
import { settings } from './settings.js';
import { numbers, textOf, theme } from './fields.js';

const FAINT = theme.colors.text.secondary;
const GRID = theme.colors.border.weak;
const label = { fill: FAINT, fontSize: 11 };

const across = (left, width) => (time) =>
  left + ((time - settings.from) / (settings.to - settings.from)) * width;

function TimeAxis({ left, width, y }) {
  const x = across(left, width);
  const minutes = (settings.to - settings.from) / 60000;
  const every = [1, 2, 5, 10, 15, 30].find((step) => minutes / step <= width / 80) * 60000;
  const times = [];
  for (let time = Math.ceil(settings.from / every) * every; time <= settings.to; time += every)
    times.push(time);
  return times.map((time) => (
    <text key={time} x={x(time)} y={y} textAnchor="middle" {...label}>
      {dateTimeFormat(time, { format: 'HH:mm', timeZone: 'utc' })}
    </text>
  ));
}

// From a round number a little above the largest value, downwards in round steps.
function ticks(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

function ValueAxis({ field, marks, y, left, width }) {
  return marks.map((mark) => (
    <g key={mark}>
      <line x1={left} x2={left + width} y1={y(mark)} y2={y(mark)} stroke={GRID} />
      <text x={left - 6} y={y(mark) + 4} textAnchor="end" {...label}>
        {textOf(field.display(mark))}
      </text>
    </g>
  ));
}

function Limits({ field, y, left, width }) {
  if (field.config.custom?.thresholdsStyle?.mode !== 'dashed') return null;
  return field.config.thresholds.steps
    .filter(({ value }) => Number.isFinite(value))
    .map(({ value, color }) => (
      <line
        key={value}
        x1={left}
        x2={left + width}
        y1={y(value)}
        y2={y(value)}
        strokeDasharray="8 8"
        strokeWidth="1.5"
        stroke={theme.visualization.getColorByName(color)}
      />
    ));
}

const colourOf = (field, value) => field.display(value).color ?? FALLBACK_COLOR;

export function Legend({ names }) {
  return (
    <div style={{ display: 'flex', gap: 14, paddingLeft: 8, fontSize: 12, color: theme.colors.text.primary }}>
      {names.map(([name, colour]) => (
        <span key={name}>
          <span
            style={{
              display: 'inline-block',
              width: 14,
              height: 4,
              borderRadius: 2,
              background: colour,
              margin: '0 6px 3px 0',
            }}
          />
          {name}
        </span>
      ))}
    </div>
  );
}

export function BarChart({ panel, frames: [frame], width, height }) {
  const [names] = frame.fields;
  const shown = numbers(frame);
  const stacked = panel.options.stacking === 'normal';
  const legend = panel.options.legend.showLegend ? 22 : 0;
  const [left, bottom, top] = [48, 22, 14];
  const [w, h] = [width - left - 8, height - legend - bottom - top];
  const all = shown.flatMap((field) => field.values.filter(Number.isFinite));
  const limits = panel.fieldConfig.defaults.thresholds.steps.map((step) => step.value ?? 0);
  const lowest =
    panel.fieldConfig.defaults.custom.thresholdsStyle?.mode === 'dashed' ? Math.max(...limits) * 1.1 : 0;
  const marks = ticks(panel.fieldConfig.defaults.max ?? Math.max(...all, lowest) * 1.05);
  const y = (value) => top + h - (value / marks.at(-1)) * h;
  const group = w / frame.length;
  const bar = (group * panel.options.groupWidth) / (stacked ? 1 : shown.length);
  return (
    <>
      <svg width={width} height={height - legend}>
        <ValueAxis field={shown[0]} marks={marks} y={y} left={left} width={w} />
        {shown.map((field, index) =>
          field.values.map((value, row) => {
            if (!Number.isFinite(value)) return null;
            const x =
              left +
              row * group +
              (group - group * panel.options.groupWidth) / 2 +
              (stacked ? 0 : index * bar);
            return (
              <g key={`${index} ${row}`}>
                <rect
                  x={x + 1}
                  width={bar - 2}
                  y={y(value)}
                  height={Math.max(1, top + h - y(value))}
                  rx="2"
                  fill={colourOf(field, value)}
                  fillOpacity="0.85"
                />
                {bar > 26 && (
                  <text x={x + bar / 2} y={y(value) - 3} textAnchor="middle" {...label}>
                    {textOf(field.display(value))}
                  </text>
                )}
              </g>
            );
          }),
        )}
        <Limits field={shown[0]} y={y} left={left} width={w} />
        {names.values.map((name, row) => (
          <text
            key={row}
            x={left + (row + 0.5) * group}
            y={height - legend - 6}
            textAnchor="middle"
            {...label}
          >
            {name}
          </text>
        ))}
      </svg>
      {legend > 0 && (
        <Legend
          names={shown.map((field) => [getFieldDisplayName(field, frame, [frame]), colourOf(field, 1)])}
        />
      )}
    </>
  );
}

export function StateTimeline({ panel, frames, width, height }) {
  const rows = frames.map((frame) => [
    frame.fields[0],
    frame.fields[1],
    getFieldDisplayName(frame.fields[1], frame, frames),
  ]);
  const left = Math.max(...rows.map(([, , name]) => name.length)) * 7 + 14;
  const [w, h] = [width - left - 8, (height - 24) / rows.length];
  const x = across(left, w);
  return (
    <svg width={width} height={height}>
      {rows.map(([times, field, name], row) => (
        <g key={name + row}>
          <text x={left - 8} y={(row + 0.5) * h + 4} textAnchor="end" {...label} fontSize={12}>
            {name}
          </text>
          {runs(times, field).map(([from, to, value]) => {
            const shown = field.display(value);
            const wide = x(to) - x(from);
            return (
              <g key={from}>
                <rect
                  x={x(from)}
                  width={Math.max(wide - 1, 1)}
                  y={row * h + h * 0.1}
                  height={h * panel.options.rowHeight}
                  fill={shown.color}
                  fillOpacity="0.75"
                />
                {wide > shown.text.length * 7 + 8 && (
                  <text x={x(from) + 6} y={(row + 0.5) * h + 4} fill="#fff" fontSize="12">
                    {shown.text}
                  </text>
                )}
              </g>
            );
          })}
        </g>
      ))}
      <TimeAxis left={left} width={w} y={height - 6} />
    </svg>
  );
}

// Stretches of one value: [from, to, value].
function runs(times, field) {
  const found = [];
  const step = times.config.interval;
  times.values.forEach((time, index) => {
    const [last] = found.slice(-1);
    const value = field.values[index];
    if (last && last[2] === value && time - last[1] <= 1.5 * step)
      last[1] = Math.min(time + step, settings.to);
    else {
      if (last && time - last[1] <= 1.5 * step) last[1] = time;
      found.push([Math.max(time, settings.from), Math.min(time + step, settings.to), value]);
    }
  });
  return found;
}

// Buckets hold what is at most their bound; a cell is what is between two bounds.
function cellsOf(panel, frames) {
  const byName = [...frames].sort(
    (a, b) => a.name.replace('+Inf', 'Infinity') - b.name.replace('+Inf', 'Infinity'),
  );
  const buckets = panel.targets[0].format === 'heatmap';
  return byName
    .map((frame, row) => {
      const below =
        buckets && row
          ? new Map(
              byName[row - 1].fields[0].values.map((time, index) => [
                time,
                byName[row - 1].fields[1].values[index],
              ]),
            )
          : new Map();
      const values = frame.fields[1].values.map(
        (value, index) => value - (below.get(frame.fields[0].values[index]) ?? 0),
      );
      return { name: frame.name, times: frame.fields[0], values };
    })
    .filter(({ name }) => name !== '+Inf');
}

export function Heatmap({ panel, frames, width, height }) {
  const rows = cellsOf(panel, frames);
  const { min = 0, max = Math.max(...rows.flatMap(({ values }) => values)), scheme } = panel.options.color;
  // On a dark page Grafana turns the scheme around.
  const colour = (value) =>
    schemes[`interpolate${scheme}`](1 - Math.min(1, (value - min) / (max - min || 1)));
  const unit = panel.options.yAxis.unit === 'percentunit';
  const [left, scale] = [52, 30];
  const [w, h] = [width - left - 8, (height - 24 - scale) / rows.length];
  const x = across(left, w);
  const display = frames[0].fields[1].display;
  return (
    <svg width={width} height={height}>
      {rows.map(({ name, times, values }, row) => {
        const y = (rows.length - 1 - row) * h;
        return (
          <g key={name}>
            {unit ? (
              row % 2 === 1 && (
                <text
                  x={left - 6}
                  y={Math.max(y + 4, 10)}
                  textAnchor="end"
                  {...label}
                >{`${Math.round(name * 100)}%`}</text>
              )
            ) : (
              <text x={left - 6} y={y + h / 2 + 4} textAnchor="end" {...label}>
                {name}
              </text>
            )}
            {values.map(
              (value, index) =>
                value > (unit ? 0 : -1) && (
                  <rect
                    key={index}
                    x={x(times.values[index])}
                    width={
                      Math.max(
                        0,
                        Math.min(x(times.values[index] + times.config.interval), left + w) -
                          x(times.values[index]),
                      ) + 0.4
                    }
                    y={y}
                    height={h - 1}
                    fill={colour(value)}
                  />
                ),
            )}
          </g>
        );
      })}
      <TimeAxis left={left} width={w} y={height - scale - 6} />
      {Array.from({ length: 60 }, (_, index) => (
        <rect
          key={index}
          x={left + index * 3}
          width="3"
          y={height - scale + 4}
          height="8"
          fill={colour(min + ((max - min) * index) / 59)}
        />
      ))}
      <text x={left} y={height - 6} {...label}>
        {textOf(display(min))}
      </text>
      <text x={left + 180} y={height - 6} textAnchor="end" {...label}>
        {textOf(display(max))}
      </text>
    </svg>
  );
}

export function Scatter({ panel, frames: [frame], width, height }) {
  const wanted = panel.options.series[0];
  const find = (axis) =>
    frame.fields.find((field) => getFieldDisplayName(field, frame, [frame]) === wanted[axis].matcher.options);
  const [xs, ys] = [find('x'), find('y')];
  if (!xs || !ys) return null;
  const points = xs.values
    .map((value, index) => [value, ys.values[index]])
    .filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b));
  const [left, bottom, top] = [48, 34, 8];
  const [w, h] = [width - left - 10, height - bottom - top];
  const [xMarks, yMarks] = [
    ticks(Math.max(...points.map(([a]) => a), 1)),
    ticks(Math.max(...points.map(([, b]) => b), 1)),
  ];
  const x = (value) => left + (value / xMarks.at(-1)) * w;
  const y = (value) => top + h - (value / yMarks.at(-1)) * h;
  return (
    <svg width={width} height={height}>
      <ValueAxis field={ys} marks={yMarks} y={y} left={left} width={w} />
      {xMarks.map((mark) => (
        <text key={mark} x={x(mark)} y={height - 20} textAnchor="middle" {...label}>
          {mark}
        </text>
      ))}
      <text x={left + w / 2} y={height - 5} textAnchor="middle" {...label}>
        {wanted.x.matcher.options}
      </text>
      {points.map(([a, b], index) => (
        <circle key={index} cx={x(a)} cy={y(b)} r="3" fill={colourOf(ys, b)} fillOpacity="0.6" />
      ))}
    </svg>
  );
}
