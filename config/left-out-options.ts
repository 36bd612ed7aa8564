import { isDeepStrictEqual } from 'node:util';
import { valuesOf } from './list-options.ts';
import { type MasterConfig, optionSections } from './options.ts';

/** An option that has a value, and no extension that reads it. */
export interface LeftOutOption {
  /** Name in files. */
  readonly option: string;
  readonly extension: string;
}

/** Returns the options of the extensions that do not have their defaults. */
export function leftOutOptions(
  config: MasterConfig,
  extensions: readonly string[],
): readonly LeftOutOption[] {
  return optionSections.flatMap(({ above, options }) => {
    const values = new Map<string, unknown>(Object.entries(valuesOf(options, config)));
    return Object.entries(options).flatMap(([member, { name, extension, default: usual }]) => {
      const isLeftOut = extension !== undefined && extensions.includes(extension);
      if (!isLeftOut || isDeepStrictEqual(values.get(member), usual)) return [];
      return [{ option: [...above, name].join(':'), extension }];
    });
  });
}
