import { findNodegroupLoop } from '../../minion-protocol/index.ts';
import { eauthOptions } from './eauth-options.ts';
import { ConfigError, type OptionOrigin } from './errors.ts';
import { checkExtPillar } from './ext-pillar-entries.ts';
import {
  aclOptions,
  limitOptions,
  type OptionTable,
  ownOptions,
  rightsOptions,
  saltOptions,
} from './option-table.ts';
import type { MasterConfig } from './options.ts';
import { readPassedOn } from './passed-on.ts';
import { checkPolicy } from './policy-check.ts';
import { checkReactions } from './reactions.ts';
import { typeError } from './refusals.ts';
import { joinRootDir } from './root-dir.ts';
import type { GivenOptions, Settings } from './settings.ts';
import { findSharedPort, servedTransports } from './transport-opts.ts';

/**
 * Checks what was given and adds what was not.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT
 */
export function completeConfig(given: GivenOptions): MasterConfig {
  const salt = readTable(saltOptions, given.salt);
  const rights = readTable(rightsOptions, given.salt);
  const eauth = Object.freeze(readTable(eauthOptions, given.salt));
  const own = readTable(ownOptions, given.own);
  const limits = Object.freeze(readTable(limitOptions, given.limits));
  const acl = Object.freeze(readTable(aclOptions, given.acl));
  const saltgui = readPassedOn(given.salt);
  const rooted = joinRootDir({ ...salt, ...rights, ...own, eauth, saltgui, limits, acl }, given);
  const config: MasterConfig = { ...rooted, keepJobsSeconds: keepJobsSeconds(rooted, given) };
  refuseConflicts(config, given);
  checkPolicy(config, given.acl);
  checkReactions(config);
  checkExtPillar(config.extPillar, given.salt);
  return Object.freeze(config);
}

function readTable<T extends object>(table: OptionTable<T>, given: Settings): T {
  const values: Partial<T> = {};
  for (const member in table) {
    const { name, kind, default: defaultValue } = table[member];
    const setting = given.get(name);
    // A key without a value is one that somebody commented the value of.
    if (setting === undefined || setting.value === null) {
      values[member] = defaultValue;
      continue;
    }
    const value = kind.parse(setting.value);
    if (value === undefined) throw typeError(setting.origin, setting.value, kind.expected);
    values[member] = value;
  }
  return values as T; // every member of the table has been set
}

function keepJobsSeconds(config: MasterConfig, { salt }: GivenOptions): number {
  const isOlderForm = salt.has('keep_jobs') && !salt.has('keep_jobs_seconds');
  return isOlderForm ? config.keepJobs * 3600 : config.keepJobsSeconds;
}

function refuseConflicts(config: MasterConfig, { salt }: GivenOptions): void {
  if (config.openMode && !config.confirmOpenMode) {
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOf(salt, 'open_mode'),
      'accepts any key for any minion, also in place of a known one; ' +
        'if that is meant, set confirm_open_mode: true under saltbridge:',
    );
  }
  const loop = findNodegroupLoop(config.nodegroups);
  if (loop !== undefined) {
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOf(salt, 'nodegroups'),
      `a nodegroup contains itself: ${loop.join(' > ')}; take one N@ of these out`,
    );
  }
  const shared = findSharedPort(servedTransports(config));
  if (shared !== undefined) {
    const key = ['transport_opts', 'ret_port'].find((name) => salt.has(name)) ?? 'publish_port';
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOf(salt, key),
      `${shared} are the same; expected different ports`,
    );
  }
}

function originOf(settings: Settings, key: string): OptionOrigin {
  return settings.get(key)?.origin ?? { file: 'options', line: 0, key };
}
