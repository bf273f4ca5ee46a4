// A panel's queries become Grafana's data frames, and Grafana's own transformations are applied to them.
import {
  FieldType,
  standardTransformers,
  standardTransformersRegistry,
  toDataFrame,
  transformDataFrame,
} from '@grafana/data';
import { firstValueFrom } from 'rxjs';
import { builtIn, instant, range, stepFor } from './prometheus.js';
import { interpolate } from './variables.js';

// Some have two names; the registry wants each id once.
const byId = new Map(
  Object.values(standardTransformers).map((transformation) => [transformation.id, transformation]),
);
standardTransformersRegistry.setInit(() =>
  [...byId].map(([id, transformation]) => ({
    id,
    name: id,
    transformation: () => Promise.resolve(transformation),
    editor: () => null,
  })),
);

const number = (text) =>
  text === 'NaN' ? NaN : text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : +text;

function nameOf(format, labels) {
  if (format && format !== '__auto')
    return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? '');
  const { __name__: name = '', ...others } = labels;
  const text = Object.entries(others).map(([label, value]) => `${label}="${value}"`);
  return text.length ? `${name}{${text.join(', ')}}` : name || 'Value';
}

function series(target, result, step) {
  return result.map(({ metric, values, value }) => {
    const points = values ?? [value];
    const name = nameOf(target.legendFormat, metric);
    const time = {
      name: 'Time',
      type: FieldType.time,
      values: points.map(([at]) => at * 1000),
      config: { interval: step * 1000 },
    };
    const field = {
      name: 'Value',
      type: FieldType.number,
      labels: metric,
      values: points.map(([, text]) => number(text)),
      config: { displayNameFromDS: name },
    };
    return toDataFrame({ refId: target.refId, name, fields: [time, field] });
  });
}

function table(target, result, single) {
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const columns = labels.map((label) => ({
    name: label,
    type: FieldType.string,
    values: result.map(({ metric }) => metric[label] ?? ''),
    config: { filterable: true },
  }));
  const time = {
    name: 'Time',
    type: FieldType.time,
    values: result.map(({ value }) => value[0] * 1000),
    config: {},
  };
  const value = {
    name: single ? 'Value' : `Value #${target.refId}`,
    type: FieldType.number,
    values: result.map(({ value }) => number(value[1])),
    config: {},
  };
  return [toDataFrame({ refId: target.refId, fields: [time, ...columns, value] })];
}

async function framesOf(target, single, step) {
  const expression = interpolate(target.expr, builtIn(step));
  const result = target.instant ? await instant(expression) : await range(expression, step);
  return target.format === 'table' ? table(target, result, single) : series(target, result, step);
}

export async function load(panel, width) {
  const step = stepFor(width);
  const single = panel.targets.length === 1;
  const frames = (await Promise.all(panel.targets.map((target) => framesOf(target, single, step)))).flat();
  const steps = panel.transformations ?? [];
  return steps.length ? firstValueFrom(transformDataFrame(steps, frames)) : frames;
}
