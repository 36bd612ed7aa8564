import { isDeepStrictEqual } from 'node:util';
import { valuesOf } from './list-options.ts';
import { type MasterConfig, optionSections } from './options.ts';

/** Option without effect: it is set, but its extension is not loaded. */
export interface LeftOutOption {
  /** Name of the option in files. */
  readonly option: string;
  readonly extension: string;
}

/** Returns options of extensions that are not loaded, if the options differ from their defaults. */
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
