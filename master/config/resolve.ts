import { completeConfig } from './complete.ts';
import { eauthOptions } from './eauth-options.ts';
import type { OptionOrigin } from './errors.ts';
import {
  aclOptions,
  limitOptions,
  type OptionTable,
  ownOptions,
  rightsOptions,
  saltOptions,
} from './option-table.ts';
import type { MasterConfig, MasterOptions } from './options.ts';
import { typeError, unknownOption } from './refusals.ts';
import type { Settings } from './settings.ts';

/**
 * A complete configuration from the options that a program passes. They are checked like those
 * of a file; `undefined` means not set.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT, ERR_OPTION_UNKNOWN
 */
export function resolveMasterConfig(options: Partial<MasterOptions> = {}): MasterConfig {
  const { limits = {}, acl = {}, eauth = {}, ...rest } = options;
  refuseOther('limits', limits);
  refuseOther('acl', acl);
  refuseOther('eauth', eauth);
  const own = new Map(Object.entries(rest).filter(([name]) => Object.hasOwn(ownOptions, name)));
  const salt = Object.entries(rest).filter(([name]) => !own.has(name));
  return completeConfig({
    salt: new Map([
      ...toSettings(salt, { ...saltOptions, ...rightsOptions }, [
        ...Object.keys(saltOptions),
        ...Object.keys(rightsOptions),
        ...Object.keys(ownOptions),
      ]),
      ...toSettings(Object.entries(eauth), eauthOptions, Object.keys(eauthOptions)),
    ]),
    own: toSettings([...own], ownOptions, []),
    limits: toSettings(Object.entries(limits), limitOptions, Object.keys(limitOptions)),
    acl: toSettings(Object.entries(acl), aclOptions, Object.keys(aclOptions)),
  });
}

function refuseOther(name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return;
  throw typeError(originOf(name), value, 'an object');
}

function toSettings<T extends object>(
  options: readonly (readonly [name: string, value: unknown])[],
  table: OptionTable<T>,
  known: readonly string[],
): Settings {
  const settings: Settings = new Map();
  for (const [name, value] of options) {
    if (!isMember(table, name)) throw unknownOption(originOf(name), known);
    if (value !== undefined) settings.set(table[name].name, { value, origin: originOf(name) });
  }
  return settings;
}

function isMember<T extends object>(table: OptionTable<T>, name: string): name is string & keyof T {
  return Object.hasOwn(table, name);
}

function originOf(name: string): OptionOrigin {
  return { file: 'options', line: 0, key: name };
}
