import { isDeepStrictEqual } from 'node:util';
import { valuesOf } from './list-options.ts';
import { type MasterConfig, optionSections } from './options.ts';

/** Option that is set although the extension that reads it is not loaded. */
export interface LeftOutOption {
  /** Name of the option in files. */
  readonly option: string;
  readonly extension: string;
}

/**
 * Returns options whose extensions are not loaded, although the options differ from their defaults.
 */
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
