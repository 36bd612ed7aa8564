import { type LiveConfig, valuesForMinions } from '#config';
import type { WireMap } from '#minion-protocol';

/** Returns the options of the master that templates read with `config.get`, by their Salt names. */
export function masterOptionsOf({ all, leftOut }: LiveConfig): WireMap {
  return { ...valuesForMinions(all, leftOut), file_client: 'local', __role: 'master' };
}
