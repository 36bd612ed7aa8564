/** The configuration of a master that runs, some of which can change. */

import { isDeepStrictEqual } from 'node:util';
import type { ReloadReport } from '../api/index.ts';
import {
  aclOptions,
  eauthOptions,
  limitOptions,
  ownOptions,
  rightsOptions,
  saltOptions,
} from './option-table.ts';
import type { Limits, MasterConfig } from './options.ts';

/** Options that a running master takes over (docs/configuration.md has the same list). */
export const reloadableOptions: readonly (keyof MasterConfig)[] = [
  'autoAccept',
  'openMode',
  'confirmOpenMode',
  'autosignFile',
  'autorejectFile',
  'autosignGrainsDir',
  'autosignTimeout',
  'permissivePkiAccess',
  'authEvents',
  'maxMinions',
  'minionIds',
  'acl',
  'publisherAcl',
  'publisherAclBlacklist',
  'externalAuth',
  'permissiveAcl',
  'eauth',
  'confirmAutoEauth',
  'reactions',
  'reactor',
  'allowMinionKeyRevoke',
  'rotateAesKey',
  'pingOnRotate',
  'nodegroups',
  'minionDataCacheEvents',
  'timeout',
  'gatherJobTimeout',
  'keepJobs',
  'keepJobsSeconds',
  // The logger belongs to whoever made it: `saltbridge master` sets its levels.
  'logLevel',
  'logLevelLogfile',
];

/** Limits that a running master takes over. */
export const reloadableLimits: readonly (keyof Limits)[] = [
  'requestsPerSecond',
  'eventsPerSecond',
  'burst',
  'returnBytes',
  'eventBytes',
  'authsPerSecond',
  'pendingKeys',
  'pendingKeysPerAddress',
];

/** Hands a configuration to the parts of a master, and changes it under them. */
export class LiveConfig {
  /**
   * The configuration in force. Its members change with {@link replace}: who wants to follow reads
   * them when they are needed, and does not keep them.
   */
  readonly view: MasterConfig;
  #current: MasterConfig;

  constructor(config: MasterConfig) {
    this.#current = config;
    this.view = this.#createView();
  }

  /** Takes over at once what may change while a master runs; the rest stays as it is. */
  replace(next: MasterConfig): Omit<ReloadReport, 'certificates'> {
    const before = this.#current;
    const after = this.preview(next);
    this.#current = after;
    return {
      applied: differences(before, after),
      needRestart: differences(after, next),
    };
  }

  /** The configuration that {@link replace} would put in force. */
  preview(next: MasterConfig): MasterConfig {
    const before = this.#current;
    const limits = Object.freeze({ ...before.limits, ...pick(next.limits, reloadableLimits) });
    return Object.freeze({ ...before, ...pick(next, reloadableOptions), limits });
  }

  #createView(): MasterConfig {
    const view = { ...this.#current };
    for (const name of namesOf(view)) {
      Object.defineProperty(view, name, { enumerable: true, get: () => this.#current[name] });
    }
    return Object.freeze(view);
  }
}

function pick<T, Name extends keyof T>(values: T, names: readonly Name[]): Pick<T, Name> {
  const picked: Partial<Pick<T, Name>> = {};
  for (const name of names) picked[name] = values[name];
  return picked as Pick<T, Name>; // every name has been set
}

/** The names in files of the options whose values differ. */
function differences(a: MasterConfig, b: MasterConfig): string[] {
  const { limits: limitsOfA, acl: aclOfA, eauth: eauthOfA, saltgui: passedOnOfA, ...restOfA } = a;
  const { limits: limitsOfB, acl: aclOfB, eauth: eauthOfB, saltgui: passedOnOfB, ...restOfB } = b;
  const rows = { ...saltOptions, ...rightsOptions, ...ownOptions };
  const rest = namesOf(restOfA).filter((name) => !isDeepStrictEqual(restOfA[name], restOfB[name]));
  const acl = namesOf(aclOfA).filter((name) => !isDeepStrictEqual(aclOfA[name], aclOfB[name]));
  const eauth = namesOf(eauthOfA).filter(
    (name) => !isDeepStrictEqual(eauthOfA[name], eauthOfB[name]),
  );
  const limits = namesOf(limitsOfA).filter((name) => limitsOfA[name] !== limitsOfB[name]);
  return [
    ...rest.map((name) => (name in ownOptions ? 'saltbridge:' : '') + rows[name].name),
    ...(isDeepStrictEqual(passedOnOfA, passedOnOfB) ? [] : ['saltgui_*']),
    ...eauth.map((name) => eauthOptions[name].name),
    ...acl.map((name) => `saltbridge:acl:${aclOptions[name].name}`),
    ...limits.map((name) => `saltbridge:limits:${limitOptions[name].name}`),
  ];
}

function namesOf<T extends object>(values: T): (keyof T)[] {
  return Object.keys(values) as (keyof T)[]; // made from a literal of exactly these
}
