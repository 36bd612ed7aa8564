/**
 * Hooks that run when values in the metadata of a server change. On other clouds, `cfn-hup` runs
 * them. A hook applies the server's `AWS::CloudFormation::Init`, or runs a command of the catalog.
 * The ids of deployment records contain digests of the previous values, so no other state is
 * stored.
 */

import { isPlainMap, jsonDigest } from '#heat-bridge';
import type { ReadingStep } from '#runtime';
import { initKey } from '../cfn-init/config-sets.ts';
import type { DeploymentRecord } from './deployment-records.ts';
import {
  boundedConfig,
  type Deployment,
  type DeploymentAction,
  type UnreadableDeployment,
} from './metadata.ts';

/** Change of a value in the metadata that can trigger a hook. */
type HookEvent = 'add' | 'remove' | 'update';

const events: readonly HookEvent[] = ['add', 'remove', 'update'];

const actionOf: Readonly<Record<HookEvent, DeploymentAction>> = {
  add: 'CREATE',
  update: 'UPDATE',
  remove: 'DELETE',
};

/** Hook, parsed from an entry of `saltbridge:cfn-hup` in the metadata. */
interface Hook {
  readonly name: string;
  readonly triggers: ReadonlySet<HookEvent>;
  /** Keys from the root of the metadata to the value. */
  readonly path: readonly string[];
  /** Command of the catalog. `undefined`: the hook applies the init metadata. */
  readonly action: string | undefined;
}

/** Hooks to run, and changes to record, for the current metadata of a server. */
export interface MetadataUpdates {
  /** Deployments to run now, in the form in which Heat lists deployments. */
  readonly deployments: readonly (Deployment | UnreadableDeployment)[];
  /**
   * Deployment records to store although no hook runs. For a hook whose watched value is unchanged,
   * the record of its last run. For a hook whose value has changed in a way that does not trigger
   * it, a new record.
   */
  readonly noted: readonly Pick<Deployment, 'action' | 'id' | 'name'>[];
  /**
   * Ids of hook runs whose records must not be deleted yet. Each is the last run of a hook whose
   * watched values have changed since. The id contains the digests of the previous values, so its
   * record is needed until the hook's new run is recorded.
   */
  readonly before: readonly string[];
  /** Reasons why hooks never run, or do not run for some triggers. */
  readonly warnings: readonly string[];
}

const hooksKey = 'saltbridge:cfn-hup';
const optionsKey = 'saltbridge:cfn-init';
const maxHooks = 16;
/**
 * Maximum number of values that all hooks of a server watch together. Values inside watched maps
 * and lists are included.
 */
const maxWatchedValues = 100_000;
/** Maximum length of a hook's name, in characters. Each deployment record contains the name. */
const maxNameLength = 128;
/**
 * Maximum length of each of the fields `triggers`, `path` and `action` of a hook, in characters.
 */
const maxValueLength = 1_024;
/** Form of the ids of hook runs. They differ from ids of Heat, which are UUIDs. */
const idForm = /^hook-([0-9a-f]{12})-(add|update|remove)-([0-9a-f]{24})-(\d+)$/;
const aliasForm = /^[A-Za-z0-9_.-]{1,128}$/;

/**
 * Digests of the values that hooks watch. The key is the path of a hook, as JSON text. A path
 * without a value has the digest `undefined`. A path is missing if its value would exceed the limit
 * {@link maxWatchedValues}.
 */
export type WatchedValues = ReadonlyMap<string, string | undefined>;

/**
 * Compares the metadata with the last run of each hook, and returns the hooks that must run now.
 * @param records - deployment records of the server, the oldest first
 * @param watched - digests of the values that the hooks watch. Default: computed from the metadata,
 * without pauses for other work
 */
export function metadataUpdates(
  metadata: Readonly<Record<string, unknown>>,
  records: readonly Pick<DeploymentRecord, 'id'>[],
  watched: WatchedValues = watchedValuesOf(metadata),
): MetadataUpdates {
  const deployments: (Deployment | UnreadableDeployment)[] = [];
  const noted: Pick<Deployment, 'action' | 'id' | 'name'>[] = [];
  const previous: string[] = [];
  const { hooks, warnings: problems } = hooksOf(metadata);
  const warnings = [...problems];
  for (const hook of hooks) {
    const key = digestOf(hook.name, 12);
    const last = lastOf(key, records);
    const path = JSON.stringify(hook.path);
    if (!watched.has(path)) {
      const text = `the hook never runs: all hooks together watch more than ${maxWatchedValues} values`;
      warnings.push(`${hooksKey}: ${shownName(hook.name)}: ${text}`);
      if (last !== undefined) previous.push(last.id);
      continue;
    }
    const digest = watched.get(path);
    const before = last?.event === 'remove' ? undefined : last?.digest;
    const event = eventOf(before, digest);
    if (event === undefined) {
      // Record the last run again while the value is unchanged, so that its record is retained.
      if (last !== undefined) noted.push({ id: last.id, name: hook.name, action: 'UPDATE' });
      continue;
    }
    if (last !== undefined) previous.push(last.id);
    const id = `hook-${key}-${event}-${digest ?? before ?? ''}-${(last?.count ?? 0) + 1}`;
    const entry = { id, name: hook.name, action: actionOf[event] };
    if (!hook.triggers.has(event)) noted.push(entry);
    else deployments.push(deploymentOf(entry, hook, metadata));
  }
  return { deployments, noted, before: previous, warnings };
}

function eventOf(before: string | undefined, now: string | undefined): HookEvent | undefined {
  if (before === now) return undefined;
  if (before === undefined) return 'add';
  return now === undefined ? 'remove' : 'update';
}

/**
 * Computes the digests of the values that hooks watch, one path in each step. A digest also covers
 * the options of the init metadata, so that a change of these options triggers the hooks.
 */
export function* watchedValuesInSteps(
  metadata: Readonly<Record<string, unknown>>,
): Generator<ReadingStep, WatchedValues, void> {
  const options = optionsOf(metadata);
  const digests = new Map<string, string | undefined>();
  let values = 0;
  for (const { path } of hooksOf(metadata).hooks) {
    const key = JSON.stringify(path);
    if (digests.has(key)) continue;
    const value = valueAt(metadata, path);
    if (value === undefined) {
      digests.set(key, undefined);
      continue;
    }
    const more = countValues([value, options], maxWatchedValues - values);
    values += more;
    if (values < maxWatchedValues) digests.set(key, digestOf([value, options], 24));
    yield { characters: 0, values: more };
  }
  return digests;
}

/** Computes the same digests as {@link watchedValuesInSteps}, but all of them in one step. */
export function watchedValuesOf(metadata: Readonly<Record<string, unknown>>): WatchedValues {
  const steps = watchedValuesInSteps(metadata);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/**
 * Counts a value and all values inside it. If the count reaches `most`, stops and returns `most`.
 */
function countValues(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return Math.min(1, most);
  let count = 1;
  for (const inner of Object.values(value)) {
    if (count >= most) return most;
    count += countValues(inner, most - count);
  }
  return Math.min(count, most);
}

/**
 * Returns the id of a hook's last run, and the parts of this id: the event, the digest of the value
 * at that time, and the number of the run. Returns `undefined` if the hook has not run.
 * @param key - digest of the hook's name
 */
function lastOf(
  key: string,
  records: readonly Pick<DeploymentRecord, 'id'>[],
):
  | { readonly id: string; readonly event: string; readonly digest: string; readonly count: number }
  | undefined {
  let last: ReturnType<typeof lastOf>;
  for (const { id } of records) {
    const [, of, event = '', digest = '', digits] = idForm.exec(id) ?? [];
    const count = Number(digits);
    if (of === key && count > (last?.count ?? 0)) last = { id, event, digest, count };
  }
  return last;
}

function digestOf(value: unknown, length: number): string {
  return jsonDigest(value).slice(0, length);
}

/**
 * Returns the built-in hook that applies the init metadata, and the hooks that the template
 * defines.
 */
function hooksOf(metadata: Readonly<Record<string, unknown>>): {
  readonly hooks: readonly Hook[];
  readonly warnings: readonly string[];
} {
  const { [hooksKey]: given } = metadata;
  const own: Hook = {
    name: initKey,
    triggers: new Set(['add', 'update']),
    path: [initKey],
    action: undefined,
  };
  const more = Object.entries(isPlainMap(given) ? given : {});
  const parsed = more.slice(0, maxHooks).map(([name, hook]) => parseHook(name, hook));
  const warnings = parsed.flatMap(({ name, warning }) =>
    warning === undefined ? [] : [`${hooksKey}: ${shownName(name)}: ${warning}`],
  );
  if (given !== undefined && !isPlainMap(given)) warnings.push(`${hooksKey}: must be a map`);
  if (more.length > maxHooks) {
    warnings.push(`${hooksKey}: only the first ${maxHooks} of ${more.length} hooks run`);
  }
  return { hooks: [own, ...parsed.flatMap(({ hook }) => hook ?? [])], warnings };
}

interface ParsedHook {
  readonly name: string;
  /**
   * The parsed hook. `undefined` if the definition has a mistake because of which the hook never
   * runs.
   */
  readonly hook?: Hook;
  /** Reason why the hook never runs, or does not run for some triggers. */
  readonly warning?: string;
}

/** Parses a hook. Whitespace around values is ignored, as in the configuration file of cfn-hup. */
function parseHook(name: string, given: unknown): ParsedHook {
  if (!isPlainMap(given)) return { name, warning: 'the hook never runs: it must be a map' };
  if (name === initKey) {
    return {
      name,
      warning: `the hook never runs: the name ${initKey} is reserved; rename the hook`,
    };
  }
  if (name.length > maxNameLength) {
    const text = `the hook never runs: its name has more than ${maxNameLength} characters`;
    return { name, warning: `${text}; rename the hook` };
  }
  const { triggers = '', path = '', action } = given;
  const listed = textOrListOf(triggers);
  if (listed === undefined || typeof path !== 'string') {
    const field = listed === undefined ? 'triggers' : 'path';
    return { name, warning: `the hook never runs: \`${field}\` must be text` };
  }
  for (const [key, value] of Object.entries({ triggers: listed, path, action })) {
    if (typeof value !== 'string' || value.length <= maxValueLength) continue;
    const text = `the hook never runs: \`${key}\` has more than ${maxValueLength} characters`;
    return { name, warning: text };
  }
  const words = listed
    .split(',')
    .map((it) => it.trim())
    .filter((it) => it !== '');
  const known = events.map((it) => `post.${it}`);
  const found = events.filter((it) => words.includes(`post.${it}`));
  const unknown = words.filter((it) => !known.includes(it));
  const hint = `known triggers are ${known.join(', ')}`;
  if (found.length === 0) {
    const which = unknown.length === 0 ? '' : ` (${unknown.map(shownName).join(', ')})`;
    return { name, warning: `the hook never runs: it names no known trigger${which}; ${hint}` };
  }
  const keys = pathOf(path.trim());
  if (keys === undefined) {
    const text = `the hook never runs: the \`path\` ${shownName(path)} does not have the form Resources.NAME.Metadata.KEY`;
    return { name, warning: text };
  }
  if (typeof action !== 'string' || action.trim() === '') {
    return { name, warning: 'the hook never runs: `action` must name a command of the catalog' };
  }
  const hook = { name, triggers: new Set(found), path: keys, action: action.trim() };
  if (unknown.length === 0) return { name, hook };
  const text = `unknown triggers are ignored: ${unknown.map(shownName).join(', ')}; ${hint}`;
  return { name, hook, warning: text };
}

/**
 * Returns the given text, or joins the given list of texts with commas. Returns `undefined` for any
 * other value.
 */
function textOrListOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const isList = Array.isArray(value) && value.every((it) => typeof it === 'string');
  return isList ? value.join(',') : undefined;
}

function shownName(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}

/**
 * Parses `Resources.NAME.Metadata.KEY.KEY` or `Metadata.KEY.KEY`. Keys with dots are quoted. NAME
 * is ignored, because the resource is always the server itself.
 */
function pathOf(text: string): readonly string[] | undefined {
  const [, rest] = /^(?:Resources\.[^.]+\.)?Metadata(?:\.(.+))?$/.exec(text) ?? [
    undefined,
    undefined,
  ];
  if (rest === undefined) return /^(?:Resources\.[^.]+\.)?Metadata$/.test(text) ? [] : undefined;
  return [...rest.matchAll(/'([^']*)'|([^.]+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

/**
 * Returns the value at a path in the metadata. Returns `undefined` for a missing value, and for the
 * data that Heat itself stores in the metadata for agents.
 */
function valueAt(metadata: Readonly<Record<string, unknown>>, path: readonly string[]): unknown {
  const { deployments: _deployments, 'os-collect-config': _collect, ...own } = metadata;
  let value: unknown = own;
  for (const key of path) {
    value = isPlainMap(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

/**
 * Returns the options of the init metadata: the config sets, and the handle to which the result is
 * sent.
 */
function optionsOf(metadata: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { [optionsKey]: given } = metadata;
  return isPlainMap(given) ? given : {};
}

function deploymentOf(
  entry: Pick<Deployment, 'action' | 'id' | 'name'>,
  { action }: Hook,
  metadata: Readonly<Record<string, unknown>>,
): Deployment | UnreadableDeployment {
  const { configSets, signal: alias } = optionsOf(metadata);
  const isOfInit = action === undefined;
  const signal =
    isOfInit && typeof alias === 'string' && aliasForm.test(alias)
      ? ({ transport: 'HANDLE', alias } as const)
      : ({ transport: 'NO_SIGNAL' } as const);
  const init = metadata[initKey];
  const isSelected = isOfInit && configSets !== undefined && configSets !== null;
  const sets = textOrListOf(configSets);
  if (isSelected && sets === undefined) {
    const problem = `\`configSets\` in ${optionsKey} must be a string or a list of strings`;
    return { ...entry, signal, problem };
  }
  const config = boundedConfig(
    isOfInit ? 'cfn-init' : 'saltbridge',
    action ?? (isPlainMap(init) ? init : ''),
  );
  if ('problem' in config) return { ...entry, signal, ...config };
  return {
    ...entry,
    ...config,
    inputs: isOfInit && sets !== undefined ? { configSets: sets } : {},
    outputs: [],
    signal,
  };
}
