// Grafana's field options: units, limits, words and colours are applied by its own code.
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  createTheme,
  FieldConfigOptionsRegistry,
  standardFieldConfigEditorRegistry,
  identityOverrideProcessor,
  numberOverrideProcessor,
  unitOverrideProcessor,
  thresholdsOverrideProcessor,
  valueMappingsOverrideProcessor,
  displayNameOverrideProcessor,
} from '@grafana/data';

export const theme = createTheme({ colors: { mode: 'dark' } });

const PLAIN = {
  unit: unitOverrideProcessor,
  min: numberOverrideProcessor,
  max: numberOverrideProcessor,
  decimals: numberOverrideProcessor,
  displayName: displayNameOverrideProcessor,
  noValue: identityOverrideProcessor,
  thresholds: thresholdsOverrideProcessor,
  mappings: valueMappingsOverrideProcessor,
  color: identityOverrideProcessor,
  links: identityOverrideProcessor,
};
const CUSTOM = [
  'drawStyle',
  'lineInterpolation',
  'lineWidth',
  'fillOpacity',
  'fillBelowTo',
  'gradientMode',
  'showPoints',
  'pointSize',
  'stacking',
  'axisPlacement',
  'axisLabel',
  'scaleDistribution',
  'hideFrom',
  'thresholdsStyle',
  'spanNulls',
  'lineStyle',
  'axisSoftMin',
  'axisSoftMax',
  'cellOptions',
  'align',
  'width',
  'minWidth',
  'hidden',
];

const option = (id, process, isCustom) => ({
  id: isCustom ? `custom.${id}` : id,
  path: id,
  name: id,
  isCustom,
  process,
  override: process,
  shouldApply: () => true,
  editor: () => null,
  settings: {},
});

function registry() {
  const options = new FieldConfigOptionsRegistry();
  for (const [id, process] of Object.entries(PLAIN)) options.register(option(id, process, false));
  for (const id of CUSTOM) options.register(option(id, identityOverrideProcessor, true));
  return options;
}

standardFieldConfigEditorRegistry.setInit(() => registry().list());

export function withLooks(panel, frames) {
  const { defaults, overrides } = structuredClone(panel.fieldConfig);
  for (const step of defaults.thresholds.steps) step.value ??= -Infinity;
  for (const { properties } of overrides)
    for (const { id, value } of properties)
      if (id === 'thresholds') for (const step of value.steps) step.value ??= -Infinity;
  const looked = applyFieldOverrides({
    data: frames,
    fieldConfig: { defaults, overrides },
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
    fieldConfigRegistry: registry(),
  });
  cacheFieldDisplayNames(looked);
  return looked;
}

export const textOf = (display) => `${display.prefix ?? ''}${display.text}${display.suffix ?? ''}`;
export const numbers = (frame) => frame.fields.filter((field) => field.type === 'number');
