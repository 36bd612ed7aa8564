/**
 * Options that SaltGUI reads with the wheel function `config.values`. Most of them do not affect
 * the master.
 */

import type { WireMap, WireValue } from '#minion-protocol';
import { type Settings, toPlain } from './settings.ts';

const own = /^saltgui_/;
const ofSalt: ReadonlySet<string> = new Set([
  'cluster_id',
  'cluster_peers',
  'order_masters',
  'reactor',
  'state_compress_ids',
  'state_output',
  'state_output_pct',
  'state_verbose',
  'syndic_master',
  'test_providers_target',
]);

export function isPassedOn(name: string): boolean {
  return own.test(name) || ofSalt.has(name);
}

/** Returns the options for SaltGUI that are set, as written. */
export function readPassedOn(settings: Settings): WireMap {
  const found = [...settings].filter(([name]) => isPassedOn(name));
  // Files contain only values that Salt supports.
  return Object.fromEntries(found.map(([name, { value }]) => [name, toPlain(value) as WireValue]));
}
