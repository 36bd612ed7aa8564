/**
 * The `key` wheel module, which uses Salt's names of key states [salt/wheel/key.py, salt/key.py].
 */

import { literalGlob } from '#acl';
import {
  type AuditRequester,
  type Auth,
  type InProcessApi,
  KeyError,
  type KeyInfo,
  type KeySelection,
  type KeyState,
  workBudgetOf,
} from '#master';
import { keyFingerprint, type WireMap, type WireValue } from '#minion-protocol';
import { compileGlobs } from '#template/python/fnmatch.ts';
import { type FunctionTable, masterFunction, refused } from '../functions/define-function.ts';
import { flag, map, optional, required, text } from '../functions/parameters.ts';

interface KeyWheelDeps {
  readonly keys: InProcessApi['keys'];
  /** Returns the public keys of the master itself. */
  readonly ownKeys: () => readonly Auth['ownKeys'][number][];
}

/** Keys on which a call of a `key` function works, and the requester of the call. */
interface KeyWheelCall extends KeyWheelDeps {
  readonly by: AuditRequester | undefined;
}

/** Salt's names of the key states, in Salt's order. */
const folders: readonly (readonly [string, KeyState])[] = [
  ['minions_pre', 'pending'],
  ['minions_rejected', 'rejected'],
  ['minions', 'accepted'],
  ['minions_denied', 'denied'],
];

/** Maximum number of globs in one argument. */
const maxGlobs = 10_000;
/** Estimated work for comparing or copying the id of a key, in steps of a `WorkBudget`. */
const stepsOfId = 10;
/** Estimated work for computing the fingerprint of a key, in steps of a `WorkBudget`. */
const stepsOfFingerprint = 2000;

const matching = { match: required(text) } as const;
const alsoRejected = {
  include_rejected: optional(flag, false),
  include_denied: optional(flag, false),
} as const;
const alsoAccepted = {
  include_accepted: optional(flag, false),
  include_denied: optional(flag, false),
} as const;

/**
 * Parameter that Salt does not have. If it is given, only the key with this fingerprint is changed.
 */
const exactly = { fingerprint: optional(text) } as const;

interface Including {
  readonly fingerprint?: string | undefined;
  readonly include_rejected?: boolean;
  readonly include_accepted?: boolean;
  readonly include_denied?: boolean;
}

export function keyWheel(parts: KeyWheelDeps): FunctionTable {
  const { keys } = parts;
  return {
    'key.list_all': masterFunction({
      summary: 'Lists all keys by state, and the key files of the master.',
      parameters: {},
      call: (_values, { by }) => listAll({ ...parts, by }),
    }),
    'key.list': masterFunction({
      summary: 'Lists the keys of one state: acc, pre or un, rej, den; or all.',
      parameters: matching,
      call: async ({ match }, { by }) => {
        if (match.startsWith('all')) return listAll({ ...parts, by });
        const folder = folderOf(match);
        if (folder === undefined) return {};
        const all = await listKeys({ ...parts, by });
        return { [folder]: all[folder] ?? [] };
      },
    }),
    'key.name_match': masterFunction({
      summary: 'Lists the keys that match a glob, by state.',
      parameters: matching,
      call: ({ match }, { by }) => nameMatch({ ...parts, by }, match),
    }),
    'key.accept': masterFunction({
      summary: 'Accepts the pending keys that match a glob.',
      parameters: { ...matching, ...alsoRejected, ...exactly },
      call: async ({ match, ...including }, { by }) => {
        const globs = globsOf(match);
        if (globs.length === 0) return {};
        await keys.accept(selection(globs, including), by).catch(unlessInvalid);
        return nameMatch({ ...parts, by }, match);
      },
    }),
    'key.reject': masterFunction({
      summary: 'Rejects the pending keys that match a glob.',
      parameters: { ...matching, ...alsoAccepted, ...exactly },
      call: async ({ match, ...including }, { by }) => {
        const globs = globsOf(match);
        if (globs.length === 0) return {};
        await keys.reject(selection(globs, including), by);
        return nameMatch({ ...parts, by }, match);
      },
    }),
    'key.delete': masterFunction({
      summary: 'Deletes the keys that match a glob.',
      parameters: matching,
      call: async ({ match }, { by }) => {
        const globs = globsOf(match);
        if (globs.length === 0) return {};
        await keys.delete(selection(globs, {}), by);
        return nameMatch({ ...parts, by }, match);
      },
    }),
    'key.accept_dict': masterFunction({
      summary: 'Accepts the keys in a map from state to list of ids.',
      parameters: { match: required(map), ...alsoRejected },
      call: async ({ match, ...including }, { by }) => {
        const states = ['minions_pre', ...foldersOf(including)];
        return changeListed({ ...parts, by }, match, states, (ids, state) =>
          keys.accept({ match: ids, state }, by).catch(unlessInvalid),
        );
      },
    }),
    'key.reject_dict': masterFunction({
      summary: 'Rejects the keys in a map from state to list of ids.',
      parameters: { match: required(map), ...alsoAccepted },
      call: async ({ match, ...including }, { by }) => {
        const states = ['minions_pre', ...foldersOf(including)];
        return changeListed({ ...parts, by }, match, states, (ids, state) =>
          keys.reject({ match: ids, state }, by),
        );
      },
    }),
    'key.delete_dict': masterFunction({
      summary: 'Deletes the keys in a map from state to list of ids.',
      parameters: { match: required(map) },
      call: ({ match }, { by }) => {
        const states = folders.map(([name]) => name);
        return changeListed({ ...parts, by }, match, states, (ids, state) =>
          keys.delete({ match: ids, state }, by),
        );
      },
    }),
    'key.print': masterFunction({
      summary: 'Returns the public keys that match a glob.',
      parameters: matching,
      call: ({ match }, { by }) =>
        byFolder({ ...parts, by }, match, stepsOfId, ({ publicKey }) => publicKey),
    }),
    'key.finger': masterFunction({
      summary: 'Returns the fingerprints of the keys that match a glob.',
      parameters: { ...matching, hash_type: optional(text) },
      call: async ({ match, hash_type: hashType }, { by }) => {
        const steps = hashType === undefined ? stepsOfId : stepsOfFingerprint;
        const toText = (key: KeyInfo): string => fingerprintOf(key, hashType);
        const minions = await byFolder({ ...parts, by }, match, steps, toText);
        const isMatched = await compileGlobs(globsOf(match), workBudgetOf(by));
        const own: [string, string][] = [];
        for (const entry of await masterFingerprints(parts, hashType)) {
          if (await isMatched(entry[0])) own.push(entry);
        }
        return own.length === 0 ? minions : { ...minions, local: Object.fromEntries(own) };
      },
    }),
    'key.finger_master': masterFunction({
      summary: "Returns the fingerprints of the master's own keys.",
      parameters: { hash_type: optional(text) },
      call: async ({ hash_type: hashType }) => ({
        local: Object.fromEntries(await masterFingerprints(parts, hashType)),
      }),
    }),
    'key.master_key_str': masterFunction({
      summary: "Returns the master's own public keys.",
      parameters: {},
      call: () => ({
        local: Object.fromEntries(parts.ownKeys().map(({ name, pem }) => [name, pem])),
      }),
    }),
  };
}

/**
 * Ignores the error about an invalid key, and throws every other error. As in Salt, the result then
 * lists the key in its unchanged state.
 */
function unlessInvalid(error: unknown): void {
  if (!(error instanceof KeyError) || error.code !== 'ERR_KEY_INVALID') throw error;
}

function selection(match: readonly string[], including: Including): KeySelection {
  const states: KeyState[] = [];
  if (including.include_rejected) states.push('rejected');
  if (including.include_accepted) states.push('accepted');
  if (including.include_denied) states.push('denied');
  const { fingerprint: only } = including;
  return {
    match,
    ...(states.length === 0 ? {} : { include: states }),
    ...(only === undefined ? {} : { fingerprint: only }),
  };
}

function foldersOf(including: Including): string[] {
  const { include = [] } = selection([], including);
  return folders.filter(([, state]) => include.includes(state)).map(([name]) => name);
}

function stateOf(folder: string): KeyState | undefined {
  return folders.find(([name]) => name === folder)?.[1];
}

function folderOf(match: string): string | undefined {
  if (match.startsWith('acc')) return 'minions';
  if (match.startsWith('pre') || match.startsWith('un')) return 'minions_pre';
  if (match.startsWith('rej')) return 'minions_rejected';
  return match.startsWith('den') ? 'minions_denied' : undefined;
}

/**
 * Splits a comma-separated list of globs.
 * @throws MasterError ERR_ARGS if there are too many
 */
function globsOf(match: string): string[] {
  const globs = match.split(',', maxGlobs + 1);
  if (globs.length > maxGlobs)
    throw refused(`\`match\` must have at most ${maxGlobs} names or globs`);
  return globs.filter((glob) => glob !== '');
}

/** Returns the ids of all keys by state. */
async function listKeys({ keys, by }: KeyWheelCall): Promise<Record<string, string[]>> {
  const byState = Object.groupBy(await keys.list({}, by), ({ state }) => state);
  return Object.fromEntries(
    folders.map(([folder, state]) => [folder, (byState[state] ?? []).map(({ id }) => id)]),
  );
}

async function listAll(parts: KeyWheelCall): Promise<WireMap> {
  const files = parts.ownKeys().flatMap(({ name }) => [name.replace(/pub$/, 'pem'), name]);
  return { ...(await listKeys(parts)), local: files.sort() };
}

async function nameMatch(parts: KeyWheelCall, match: string): Promise<WireMap> {
  const isMatched = await compileGlobs(globsOf(match), workBudgetOf(parts.by));
  const found: WireMap = Object.create(null);
  for (const [folder, ids] of Object.entries(await listKeys(parts))) {
    const matched: string[] = [];
    for (const id of ids) if (await isMatched(id)) matched.push(id);
    if (matched.length > 0) found[folder] = matched;
  }
  return found;
}

/**
 * Returns the result of `toValue` for each key that matches a glob, by state and id.
 * @param steps - estimated work of one call of `toValue`, in steps of a `WorkBudget`
 */
async function byFolder(
  { keys, by }: KeyWheelCall,
  match: string,
  steps: number,
  toValue: (key: KeyInfo) => WireValue,
): Promise<WireMap> {
  const found: WireMap = Object.create(null);
  const budget = workBudgetOf(by);
  const isMatched = await compileGlobs(globsOf(match), budget);
  const all = await keys.list({}, by);
  for (const [folder, state] of folders) {
    const values: WireMap = Object.create(null);
    let count = 0;
    for (const key of all) {
      if (key.state !== state || !(await isMatched(key.id))) continue;
      await budget.giveWayAfter(steps);
      values[key.id] = toValue(key);
      count += 1;
    }
    if (count > 0) found[folder] = values;
  }
  return found;
}

/**
 * Changes the keys of the given ids that are in the given state. Other keys with the same ids are
 * not changed. Returns the resulting states of the ids.
 */
async function changeListed(
  parts: KeyWheelCall,
  match: WireMap,
  states: readonly string[],
  change: (globs: readonly string[], state: KeyState) => Promise<unknown>,
): Promise<WireMap> {
  const budget = workBudgetOf(parts.by);
  const before = new Map<string, Set<string>>();
  for (const [folder, ids] of Object.entries(await listKeys(parts))) {
    before.set(folder, new Set(ids));
    await budget.giveWayAfter(ids.length * stepsOfId);
  }
  const named = new Set<string>();
  for (const [folder, ids] of Object.entries(match)) {
    if (!Array.isArray(ids)) throw refused(`match: the value of ${folder} must be a list of ids`);
    const present: string[] = [];
    for (const id of ids) {
      await budget.giveWayAfter(stepsOfId);
      if (typeof id !== 'string' || before.get(folder)?.has(id) !== true) continue;
      named.add(id);
      present.push(literalGlob(id));
    }
    const state = states.includes(folder) ? stateOf(folder) : undefined;
    if (state !== undefined && present.length > 0) await change(present, state);
  }
  const after: WireMap = Object.create(null);
  for (const [folder, ids] of Object.entries(await listKeys(parts))) {
    await budget.giveWayAfter(ids.length * stepsOfId);
    const matched = ids.filter((id) => named.has(id));
    if (matched.length > 0) after[folder] = matched;
  }
  return after;
}

function fingerprintOf({ publicKey, fingerprint: known }: KeyInfo, hashType?: string): string {
  return hashType === undefined ? known : hashed(publicKey, hashType);
}

async function masterFingerprints(
  { keys, ownKeys }: KeyWheelDeps,
  hashType: string | undefined,
): Promise<[string, string][]> {
  if (hashType !== undefined)
    return ownKeys().map(({ name, pem }) => [name, hashed(pem, hashType)]);
  return (await keys.local()).map(({ name, fingerprint: known }) => [name, known]);
}

const hashTypes = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'] as const;

function hashed(pem: string, hashType: string): string {
  const known = hashTypes.find((name) => name === hashType);
  if (known !== undefined) return keyFingerprint(pem, known);
  throw refused(`hash_type must be one of ${hashTypes.join(', ')}`);
}
