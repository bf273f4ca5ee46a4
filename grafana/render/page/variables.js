// The dashboard's variables: what was chosen, else what Grafana would choose first.
import { settings } from './settings.js';
import { labelValues } from './prometheus.js';

const chosen = {};

export function interpolate(text, more = {}) {
  const values = { ...chosen, ...more };
  return text.replace(/\$\{?([a-zA-Z_]\w*)\}?/g, (all, name) => (name in values ? values[name] : all));
}

async function first(variable) {
  const [, selector, label] = /^label_values\((.+), ([$\w]+)\)$/.exec(variable.definition);
  const values = await labelValues(interpolate(selector), interpolate(label));
  const usual = variable.current?.value;
  return values.includes(usual) ? usual : (values[0] ?? '');
}

async function choose(variable) {
  if (variable.name in settings.variables) return settings.variables[variable.name];
  if (variable.type === 'datasource') return 'prometheus';
  if (variable.type === 'custom') return variable.current.value;
  return variable.includeAll ? variable.allValue : first(variable);
}

// One after the other, for a variable's query can name those before it. Returns what the bar at the top shows.
export async function chooseAll(variables) {
  const bar = [];
  for (const variable of variables) {
    const value = (chosen[variable.name] = await choose(variable));
    bar.push([variable.label ?? variable.name, value === variable.allValue ? 'All' : value]);
  }
  return bar;
}
