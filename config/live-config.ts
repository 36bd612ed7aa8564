/** Configuration of a running master. A reload replaces some of the options. */

import { isDeepStrictEqual } from 'node:util';
import { loginOptions } from './login-options.ts';
import type { OptionTable, ReloadableOf } from './option.ts';
import type { Limits, MasterConfig } from './options.ts';
import { aclOptions, limitOptions, ownOptions } from './own-options.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';

type ReloadableOption =
  | ReloadableOf<typeof saltOptions>
  | ReloadableOf<typeof rightsOptions>
  | ReloadableOf<typeof ownOptions>
  | 'acl'
  | 'eauth';
type ReloadableLimit = ReloadableOf<typeof limitOptions>;

/**
 * Names of the options that a reload replaces: `acl`, `eauth`, and the options that have the
 * property `reload` in their option table.
 */
export const reloadableOptions: readonly ReloadableOption[] = [
  ...reloadableIn(saltOptions),
  ...reloadableIn(rightsOptions),
  ...reloadableIn(ownOptions),
  'acl',
  'eauth',
];

/** Names of the limits that a reload replaces. */
export const reloadableLimits: readonly ReloadableLimit[] = reloadableIn(limitOptions);

function reloadableIn<Table extends OptionTable>(table: Table): ReloadableOf<Table>[] {
  const names = Object.keys(table).filter((name) => table[name]?.reload !== undefined);
  return names as ReloadableOf<Table>[]; // the type also selects the rows with `reload`
}

/** Part of the configuration that a reload replaces. */
export type ReloadableConfig = Pick<MasterConfig, ReloadableOption> & {
  readonly limits: Pick<Limits, ReloadableLimit>;
};

/**
 * Part of the configuration that does not change while the master runs. Code may store these
 * values.
 */
export type FixedConfig = Omit<MasterConfig, ReloadableOption | 'limits'> & {
  readonly limits: Omit<Limits, ReloadableLimit>;
};

/** Differences between two configurations, by the names of the options in files. */
export interface ConfigChanges {
  /** Changed options that are now in effect. */
  readonly applied: readonly string[];
  /** Changed options that take effect after a restart. */
  readonly needRestart: readonly string[];
}

/** Listener that applies a new configuration. */
export type ConfigListener = (current: ReloadableConfig) => void | Promise<void>;

/**
 * Prepares the state that depends on a new configuration, before the configuration takes effect.
 * @returns a function that puts the prepared state into effect
 * @throws the reason why the whole new configuration is rejected
 */
export type ConfigPreparation = (next: MasterConfig) => () => void;

/**
 * Configuration of a master. {@link LiveConfig.fixed} has only options that a reload does not
 * change. Read the other options from {@link LiveConfig.current} each time, or update derived state
 * in a listener of {@link LiveConfig.onChange}.
 */
export class LiveConfig {
  readonly fixed: FixedConfig;
  /** Names of extensions that are not loaded. Their options are not listed. */
  readonly leftOut: readonly string[];
  #all: MasterConfig;
  #current: ReloadableConfig;
  readonly #preparations: ConfigPreparation[] = [];
  readonly #listeners: ConfigListener[] = [];

  constructor(config: MasterConfig, leftOut: readonly string[] = []) {
    this.leftOut = leftOut;
    this.#all = Object.freeze({ ...config });
    this.#current = reloadableOf(config);
    this.fixed = fixedOf(config);
  }

  /**
   * Current values of the reloadable options. The object is frozen, and the next reload replaces
   * it.
   */
  get current(): ReloadableConfig {
    return this.#current;
  }

  /**
   * Current values of all options, for state that depends on the whole configuration. The next
   * reload replaces the object.
   */
  get all(): MasterConfig {
    return this.#all;
  }

  /**
   * Registers a listener for changes. A reload calls the listeners in the order of their
   * registration, and waits for each one.
   */
  onChange(listener: ConfigListener): void {
    this.#listeners.push(listener);
  }

  /**
   * Registers a function that prepares for a new configuration, and can reject it. A reload runs
   * these functions in the order of their registration.
   */
  beforeChange(preparation: ConfigPreparation): void {
    this.#preparations.push(preparation);
  }

  /**
   * Applies the reloadable options of a new configuration. The other options do not change.
   * Resolves after every listener has finished.
   * @throws the error with which a {@link ConfigPreparation} rejects the configuration. In this
   * case, nothing has changed
   */
  async replace(next: MasterConfig): Promise<ConfigChanges> {
    const before = this.#all;
    const current = reloadableOf(next);
    const limits = Object.freeze({ ...before.limits, ...current.limits });
    const bridge = withEndpoints(before.bridge, next.bridge);
    const after: MasterConfig = Object.freeze({ ...before, ...current, limits, bridge });
    const prepared = this.#preparations.map((prepare) => prepare(after));
    this.#all = after;
    this.#current = current;
    for (const putInForce of prepared) putInForce();
    for (const listener of this.#listeners) await listener(current);
    const applied = differences(before, after).map((name) =>
      name === 'saltbridge:bridge' ? `${name}:handles:endpoints` : name,
    );
    return { applied, needRestart: differences(after, next) };
  }
}

type BridgeSection = MasterConfig['bridge'];

/**
 * Returns the current bridge section with the new `handles: endpoints:`. This is the only part of
 * the section that a reload applies.
 */
function withEndpoints(before: BridgeSection, next: BridgeSection): BridgeSection {
  const [old, handles] = [membersOf(before?.handles), membersOf(next?.handles)];
  // The bridge can be added or removed only by a restart.
  if (before === null || next === null || isDeepStrictEqual(old.endpoints, handles.endpoints))
    return before;
  // Preserve the prototypes, because `isDeepStrictEqual` compares them too.
  const merged = Object.assign(Object.create(Object.getPrototypeOf(handles)), old);
  delete merged.endpoints;
  if (handles.endpoints !== undefined) merged.endpoints = handles.endpoints;
  return Object.assign(Object.create(Object.getPrototypeOf(before)), before, { handles: merged });
}

function membersOf(value: unknown): { readonly endpoints?: unknown } {
  return typeof value === 'object' && value !== null ? value : {};
}

function reloadableOf(config: MasterConfig): ReloadableConfig {
  const limits = Object.freeze(pick(config.limits, reloadableLimits));
  return Object.freeze({ ...pick(config, reloadableOptions), limits });
}

function fixedOf(config: MasterConfig): FixedConfig {
  const limits = Object.freeze(omit(config.limits, reloadableLimits));
  return Object.freeze({ ...omit(config, reloadableOptions), limits });
}

function pick<T, Name extends keyof T>(values: T, names: readonly Name[]): Pick<T, Name> {
  const picked: Partial<Pick<T, Name>> = {};
  for (const name of names) picked[name] = values[name];
  return picked as Pick<T, Name>; // every name has been set
}

function omit<T extends object, Name extends keyof T>(
  values: T,
  names: readonly Name[],
): Omit<T, Name> {
  const rest = { ...values };
  for (const name of names) delete (rest as Partial<T>)[name]; // the remaining properties are exactly the others
  return rest;
}

/**
 * Options that {@link differences} compares separately. They are maps of several options, or have
 * no single name in configuration files.
 */
const grouped = ['limits', 'acl', 'eauth', 'saltgui', 'sdb'] as const;

/** Returns the options whose values differ between two configurations, by their names in files. */
function differences(a: MasterConfig, b: MasterConfig): string[] {
  const rows = { ...saltOptions, ...rightsOptions, ...ownOptions };
  const single = differingNames(omit(a, grouped), omit(b, grouped));
  const differing = new Set(differingNames(pick(a, grouped), pick(b, grouped)));
  return [
    ...single.map((name) => (name in ownOptions ? 'saltbridge:' : '') + rows[name].name),
    ...(differing.has('saltgui') ? ['saltgui_*'] : []),
    ...(differing.has('sdb') ? ['sdb profiles'] : []),
    ...differingNames(a.eauth, b.eauth).map((name) => loginOptions[name].name),
    ...differingNames(a.acl, b.acl).map((name) => `saltbridge:acl:${aclOptions[name].name}`),
    ...differingNames(a.limits, b.limits).map(
      (name) => `saltbridge:limits:${limitOptions[name].name}`,
    ),
  ];
}

function differingNames<T extends object>(a: T, b: T): (keyof T)[] {
  return namesOf(a).filter((name) => !isDeepStrictEqual(a[name], b[name]));
}

function namesOf<T extends object>(values: T): (keyof T)[] {
  return Object.keys(values) as (keyof T)[]; // created from a literal with exactly these keys
}
