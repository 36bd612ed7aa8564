import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import { type SaltOptions, saltOptions } from './option-table.ts';
import type { MasterConfig } from './options.ts';

/** Options whose value nobody may see. */
const secret: ReadonlySet<keyof SaltOptions> = new Set(['keyPass', 'signingKeyPass']);

/** The options that Salt has, under its names; without secrets. */
export function saltValues(config: SaltOptions & Pick<MasterConfig, 'saltgui'>): WireMap {
  // What SaltGUI takes for granted [salt/config/__init__.py].
  const values: WireMap = {
    syndic_master: 'masterofmasters',
    // Its page of templates fails where there is none of these.
    saltgui_templates: {},
    ...config.saltgui,
  };
  let member: keyof SaltOptions;
  for (member in saltOptions) {
    if (!secret.has(member)) values[saltOptions[member].name] = toWire(config[member]);
  }
  return values;
}

function toWire(value: unknown): WireValue {
  if (Array.isArray(value)) return value.map(toWire);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toWire(item)]));
  }
  const isPlain = ['string', 'number', 'boolean'].includes(typeof value);
  // Options are what a file can hold.
  return isPlain ? (value as string | number | boolean) : null;
}
