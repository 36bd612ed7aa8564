/** The configuration of a master that runs, some of which can change. */

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

/** Options that a running master takes over: those whose rows say `reload`. */
export const reloadableOptions: readonly ReloadableOption[] = [
  ...reloadableIn(saltOptions),
  ...reloadableIn(rightsOptions),
  ...reloadableIn(ownOptions),
  'acl',
  'eauth',
];

/** Limits that a running master takes over. */
export const reloadableLimits: readonly ReloadableLimit[] = reloadableIn(limitOptions);

function reloadableIn<Table extends OptionTable>(table: Table): ReloadableOf<Table>[] {
  const names = Object.keys(table).filter((name) => table[name]?.reload !== undefined);
  return names as ReloadableOf<Table>[]; // rows with `reload`, which the type selects as well
}

/** What a reload replaces. */
export type ReloadableConfig = Pick<MasterConfig, ReloadableOption> & {
  readonly limits: Pick<Limits, ReloadableLimit>;
};

/** What stays as it was at the start: it may be destructured and kept. */
export type FixedConfig = Omit<MasterConfig, ReloadableOption | 'limits'> & {
  readonly limits: Omit<Limits, ReloadableLimit>;
};

/** Differences between two configurations, by the names of options in files. */
export interface ConfigChanges {
  /** Options that changed, and are in force now. */
  readonly applied: readonly string[];
  /** Options that changed, and take effect after a restart. */
  readonly needRestart: readonly string[];
}

/** Takes over another configuration. */
export type ConfigListener = (current: ReloadableConfig) => void | Promise<void>;

/**
 * Makes what is derived from another configuration, before anything of it is in force.
 * @returns puts it in force
 * @throws what refuses the whole of that configuration
 */
export type ConfigPreparation = (next: MasterConfig) => () => void;

/**
 * The configuration of a master. What a reload can change is not in {@link LiveConfig.fixed}: who
 * needs it reads it from {@link LiveConfig.current} each time, or derives it again in
 * {@link LiveConfig.onChange}.
 */
export class LiveConfig {
  readonly fixed: FixedConfig;
  /** Names of extensions that the master does not have: their options are not shown. */
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

  /** The reloadable options in force: a frozen object, which the next reload replaces. */
  get current(): ReloadableConfig {
    return this.#current;
  }

  /** All options in force, for what is made of the whole: replaced as {@link current} is. */
  get all(): MasterConfig {
    return this.#all;
  }

  /** Calls the listener after each change, in the order of registration; a reload waits for it. */
  onChange(listener: ConfigListener): void {
    this.#listeners.push(listener);
  }

  /** Asks before each change, in the order of registration. */
  beforeChange(preparation: ConfigPreparation): void {
    this.#preparations.push(preparation);
  }

  /**
   * Takes over what may change while a master runs; the rest stays as it is. Resolves when every
   * listener has taken it over.
   * @throws what a preparation throws: nothing has changed then
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

/** Of what the bridge reads itself, a running master takes over `handles: endpoints:` alone. */
function withEndpoints(before: BridgeSection, next: BridgeSection): BridgeSection {
  const [old, handles] = [membersOf(before?.handles), membersOf(next?.handles)];
  // A bridge comes and goes by a restart.
  if (before === null || next === null || isDeepStrictEqual(old.endpoints, handles.endpoints))
    return before;
  // With their prototypes, which comparing looks at.
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
  for (const name of names) delete (rest as Partial<T>)[name]; // what is left has none of them
  return rest;
}

/** Options whose members are told one by one, or that have no name of their own in files. */
const grouped = ['limits', 'acl', 'eauth', 'saltgui', 'sdb'] as const;

/** The names in files of the options whose values differ. */
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
  return Object.keys(values) as (keyof T)[]; // made from a literal of exactly these
}
