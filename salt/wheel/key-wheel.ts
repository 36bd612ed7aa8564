/**
 * The `key` wheel module, which uses Salt's names of key states [salt/wheel/key.py, salt/key.py].
 */

import { literalGlob } from '#acl';
import {
  type Auth,
  type InProcessApi,
  KeyError,
  type KeyInfo,
  type KeySelection,
  type KeyState,
  MasterError,
} from '#master';
import { keyFingerprint, type WireMap, type WireValue } from '#minion-protocol';
import { userWork, WorkBudget } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { flag, map, optional, required, text } from '../functions/parameters.ts';

interface KeyWheelDeps {
  readonly keys: InProcessApi['keys'];
  /** Returns the public keys of the master itself. */
  readonly ownKeys: () => readonly Auth['ownKeys'][number][];
}

/** Salt's names of the key states, in Salt's order. */
const folders: readonly (readonly [string, KeyState])[] = [
  ['minions_pre', 'pending'],
  ['minions_rejected', 'rejected'],
  ['minions', 'accepted'],
  ['minions_denied', 'denied'],
];

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
      call: () => listAll(parts),
    }),
    'key.list': masterFunction({
      summary: 'Lists the keys of one state: acc, pre or un, rej, den; or all.',
      parameters: matching,
      call: async ({ match }) => {
        if (match.startsWith('all')) return listAll(parts);
        const folder = folderOf(match);
        if (folder === undefined) return {};
        const all = await listKeys(parts);
        return { [folder]: all[folder] ?? [] };
      },
    }),
    'key.name_match': masterFunction({
      summary: 'Lists the keys that match a glob, by state.',
      parameters: matching,
      call: ({ match }) => nameMatch(parts, match),
    }),
    'key.accept': masterFunction({
      summary: 'Accepts the pending keys that match a glob.',
      parameters: { ...matching, ...alsoRejected, ...exactly },
      call: async ({ match, ...including }, { by }) => {
        for (const one of globsOf(match)) {
          await keys.accept(selection(one, including), by).catch(unlessInvalid);
        }
        return nameMatch(parts, match);
      },
    }),
    'key.reject': masterFunction({
      summary: 'Rejects the pending keys that match a glob.',
      parameters: { ...matching, ...alsoAccepted, ...exactly },
      call: async ({ match, ...including }, { by }) => {
        for (const one of globsOf(match)) await keys.reject(selection(one, including), by);
        return nameMatch(parts, match);
      },
    }),
    'key.delete': masterFunction({
      summary: 'Deletes the keys that match a glob.',
      parameters: matching,
      call: async ({ match }, { by }) => {
        for (const one of globsOf(match)) await keys.delete(selection(one, {}), by);
        return nameMatch(parts, match);
      },
    }),
    'key.accept_dict': masterFunction({
      summary: 'Accepts the keys in a map from state to list of ids.',
      parameters: { match: required(map), ...alsoRejected },
      call: async ({ match, ...including }, { by }) => {
        const states = ['minions_pre', ...foldersOf(including)];
        return forEachKey(parts, match, states, (id, state) =>
          keys.accept({ ...selection(id, {}), state }, by).catch(unlessInvalid),
        );
      },
    }),
    'key.reject_dict': masterFunction({
      summary: 'Rejects the keys in a map from state to list of ids.',
      parameters: { match: required(map), ...alsoAccepted },
      call: async ({ match, ...including }, { by }) => {
        const states = ['minions_pre', ...foldersOf(including)];
        return forEachKey(parts, match, states, (id, state) =>
          keys.reject({ ...selection(id, {}), state }, by),
        );
      },
    }),
    'key.delete_dict': masterFunction({
      summary: 'Deletes the keys in a map from state to list of ids.',
      parameters: { match: required(map) },
      call: ({ match }, { by }) => {
        const states = folders.map(([name]) => name);
        return forEachKey(parts, match, states, (id, state) =>
          keys.delete({ ...selection(id, {}), state }, by),
        );
      },
    }),
    'key.print': masterFunction({
      summary: 'Returns the public keys that match a glob.',
      parameters: matching,
      call: ({ match }) => byFolder(parts, match, ({ publicKey }) => publicKey),
    }),
    'key.finger': masterFunction({
      summary: 'Returns the fingerprints of the keys that match a glob.',
      parameters: { ...matching, hash_type: optional(text) },
      call: async ({ match, hash_type: hashType }) => {
        const minions = await byFolder(parts, match, (key) => fingerprintOf(key, hashType));
        const isMatched = matcherOf(match);
        const own = (await masterFingerprints(parts, hashType)).filter(([name]) => isMatched(name));
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

function selection(match: string, including: Including): KeySelection {
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
  const { include = [] } = selection('*', including);
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

/** Splits a comma-separated list of globs. */
function globsOf(match: string): string[] {
  return match.split(',').filter((glob) => glob !== '');
}

/**
 * Compiles a comma-separated list of globs to a predicate.
 * @throws WorkLimitExceeded if the globs take too much work; the predicate throws it too
 */
function matcherOf(match: string): (name: string) => boolean {
  const budget = new WorkBudget(userWork);
  const tests = [...new Set(globsOf(match))].map((glob) => compileGlob(glob, budget));
  return (name) => {
    budget.spend('a list of globs', tests.length);
    return tests.some((test) => test(name));
  };
}

async function listKeys({ keys }: KeyWheelDeps): Promise<Record<string, string[]>> {
  const all = await keys.list();
  return Object.fromEntries(
    folders.map(([folder, state]) => [
      folder,
      all.filter((key) => key.state === state).map(({ id }) => id),
    ]),
  );
}

async function listAll(parts: KeyWheelDeps): Promise<WireMap> {
  const files = parts.ownKeys().flatMap(({ name }) => [name.replace(/pub$/, 'pem'), name]);
  return { ...(await listKeys(parts)), local: files.sort() };
}

async function nameMatch(parts: KeyWheelDeps, match: string): Promise<WireMap> {
  const found: WireMap = Object.create(null);
  for (const [folder, ids] of Object.entries(await listKeys(parts))) {
    const matched = ids.filter(matcherOf(match));
    if (matched.length > 0) found[folder] = matched;
  }
  return found;
}

async function byFolder(
  { keys }: KeyWheelDeps,
  match: string,
  toValue: (key: KeyInfo) => WireValue,
): Promise<WireMap> {
  const found: WireMap = Object.create(null);
  const isMatched = matcherOf(match);
  const all = (await keys.list()).filter(({ id }) => isMatched(id));
  for (const [folder, state] of folders) {
    const entries = all.filter((key) => key.state === state).map((key) => [key.id, toValue(key)]);
    if (entries.length > 0) found[folder] = Object.fromEntries(entries);
  }
  return found;
}

/**
 * Changes the keys of the given ids that are in the given state. Other keys with the same ids are
 * not changed. Returns the resulting states of the ids.
 */
async function forEachKey(
  parts: KeyWheelDeps,
  match: WireMap,
  states: readonly string[],
  change: (glob: string, state: KeyState) => Promise<unknown>,
): Promise<WireMap> {
  const before = await listKeys(parts);
  const named: string[] = [];
  for (const [folder, ids] of Object.entries(match)) {
    if (!Array.isArray(ids))
      throw new MasterError('ERR_ARGS', `match: the value of ${folder} must be a list of ids`);
    for (const id of ids) {
      if (typeof id !== 'string' || before[folder]?.includes(id) !== true) continue;
      named.push(id);
      const state = states.includes(folder) ? stateOf(folder) : undefined;
      if (state !== undefined) await change(literalGlob(id), state);
    }
  }
  const after: WireMap = Object.create(null);
  for (const [folder, ids] of Object.entries(await listKeys(parts))) {
    const matched = ids.filter((id) => named.includes(id));
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
  throw new MasterError('ERR_ARGS', `hash_type must be one of ${hashTypes.join(', ')}`);
}
