/** Status of Salt's options in this master, for the compatibility table. */

import type { OptionRow } from './option.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';
import { findUnserved, unservedNames } from './unserved-options.ts';

/** Status of an option of Salt. */
export interface OptionStatus {
  readonly name: string;
  readonly status: 'served' | 'different' | 'refused';
  /** Difference from Salt, or an alternative. Empty if the option is served unchanged. */
  readonly text: string;
}

/** Returns all options of Salt. Options with an effect come first. */
export function optionStatuses(): OptionStatus[] {
  const rows: readonly Pick<OptionRow, 'migration' | 'name'>[] = Object.values({
    ...saltOptions,
    ...rightsOptions,
  });
  const served = rows.map(
    ({ name, migration = '' }): OptionStatus => ({
      name,
      status: migration === '' ? 'served' : 'different',
      text: migration,
    }),
  );
  const unserved = unservedNames().flatMap((name): OptionStatus[] => {
    const option = findUnserved(name);
    if (option === undefined) return [];
    const { kind, advice } = option;
    return kind === 'not-served'
      ? [{ name, status: 'refused', text: advice }]
      : [{ name, status: 'different', text: `no effect: ${advice}` }];
  });
  return [...served, ...unserved];
}
