/** The wheel functions that are served. */

import { type LiveConfig, type MasterConfig, saltValues } from '#config';
import {
  type Auth,
  type CreatedKey,
  count,
  type FoundFile,
  type FunctionTable,
  flag,
  type InProcessApi,
  type Jobs,
  type KeyInfo,
  type KeySelection,
  type KeyState,
  literalGlob,
  MasterError,
  map,
  masterFunction,
  type OwnKey,
  optional,
  relativePath,
  required,
  text,
} from '#master';
import { generateKeyPair, keyFingerprint, type WireMap, type WireValue } from '#minion-protocol';
import { processUser } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import { hiddenDirectories } from '../file-trees/file-server.ts';
import { expandRoot, walkRoots } from '../file-trees/roots.ts';

// The `file_roots` wheel module, read only [salt/wheel/file_roots.py].

interface FileRootsWheelDeps {
  readonly config: Pick<MasterConfig, 'fileRoots' | 'pkiDir' | 'stateDir' | 'cachedir'>;
}

/** Bytes of a file that is read whole. */
const maxReadBytes = 16 * 1024 * 1024;
/** Bytes that tell text from anything else, as in Salt. */
const probeBytes = 512;

interface FileInRoot {
  /** The root, a slash, and the path that was asked for. */
  readonly place: string;
  readonly file: FoundFile;
  readonly isText: boolean;
}

const place = { path: required(text), saltenv: optional(text, 'base') } as const;

function fileRootsWheel({ config }: FileRootsWheelDeps): FunctionTable {
  const find = async (path: string, saltenv: string): Promise<FileInRoot[]> => {
    const relative = relativePath(path);
    if (relative === undefined) return [];
    const files = new DiskFiles(await openHidden(config));
    const found: FileInRoot[] = [];
    for (const root of await rootsOf(config, saltenv)) {
      const file = await files.find(root, relative);
      if (file === undefined) continue;
      found.push({ place: `${root}/${relative}`, file, isText: await isText(file) });
    }
    return found;
  };
  return {
    'file_roots.find': masterFunction({
      summary: 'Where a file is in the roots of an environment, and whether it is text.',
      parameters: place,
      call: async ({ path, saltenv }) => {
        const found = await find(path, saltenv);
        return found.map((one) => ({ [one.place]: one.isText ? 'txt' : 'bin' }));
      },
    }),
    'file_roots.read': masterFunction({
      summary: 'The content of a text file in each of the roots that have it.',
      parameters: place,
      call: async ({ path, saltenv }) => {
        const contents: WireValue[] = [];
        for (const one of await find(path, saltenv)) {
          if (one.isText) contents.push({ [one.place]: await readText(one.file) });
        }
        return contents;
      },
    }),
    'file_roots.list_env': masterFunction({
      summary: 'The files of an environment, as a tree under each of its roots.',
      parameters: { saltenv: optional(text, 'base') },
      call: ({ saltenv }) => listEnv(config, saltenv),
    }),
    'file_roots.list_roots': masterFunction({
      summary: 'The files of all environments.',
      parameters: {},
      call: async () => {
        const all: WireMap = Object.create(null);
        for (const saltenv of Object.keys(config.fileRoots)) {
          all[saltenv] = [await listEnv(config, saltenv)];
        }
        return all;
      },
    }),
  };
}

type Roots = FileRootsWheelDeps['config'];

function openHidden(config: Roots): Promise<HiddenDirectories> {
  return HiddenDirectories.open(hiddenDirectories(config));
}

async function rootsOf({ fileRoots }: Roots, saltenv: string): Promise<string[]> {
  const patterns = Object.hasOwn(fileRoots, saltenv) ? (fileRoots[saltenv] ?? []) : [];
  return (await Promise.all(patterns.map(expandRoot))).flat();
}

/** Links are told like what they point to, and not looked into. */
async function listEnv(config: Roots, saltenv: string): Promise<WireMap> {
  const trees: WireMap = Object.create(null);
  const hidden = await openHidden(config);
  for (const root of await rootsOf(config, saltenv)) {
    const { lists } = await walkRoots([root], {
      followsSymlinks: false,
      ignoresSymlinks: false,
      isIgnored: () => false,
      hidden,
      onDirectory: () => {},
    });
    trees[root] = treeOf(lists.dirs, lists.files);
  }
  return trees;
}

/** @param dirs sorted, so that each comes after the one that it is in */
function treeOf(dirs: readonly string[], files: readonly string[]): WireMap {
  const tree: WireMap = Object.create(null);
  const byPath = new Map<string, WireMap>([['', tree]]);
  const put = (path: string, value: WireMap | 'f'): void => {
    const cut = path.lastIndexOf('/');
    const parent = byPath.get(path.slice(0, Math.max(0, cut)));
    if (parent !== undefined) parent[path.slice(cut + 1)] = value;
  };
  for (const dir of dirs) {
    const entries: WireMap = Object.create(null);
    byPath.set(dir, entries);
    put(dir, entries);
  }
  for (const file of files) put(file, 'f');
  return tree;
}

/** UTF-8 without NUL at its beginning; Salt also takes what it then cannot read. */
async function isText(file: FoundFile): Promise<boolean> {
  const probe = await file.read(0, probeBytes);
  if (probe.includes(0)) return false;
  try {
    // The last character may be cut.
    new TextDecoder('utf-8', { fatal: true }).decode(probe, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** @throws MasterError ERR_ARGS when it is too large */
async function readText(file: FoundFile): Promise<string> {
  if (file.stat.size > maxReadBytes) {
    throw new MasterError('ERR_ARGS', `the file is larger than ${maxReadBytes} bytes`);
  }
  return Buffer.from(await file.read(0, file.stat.size)).toString('utf8');
}

// The `key` wheel module, with Salt's names of states [salt/wheel/key.py, salt/key.py].

interface KeyWheelDeps {
  readonly keys: InProcessApi['keys'];
  /** The public halves of the master's own keys. */
  readonly ownKeys: () => readonly OwnKey[];
}

/** Salt's names of the states, in its order. */
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

/** Ours: only the key that somebody has seen. */
const exactly = { fingerprint: optional(text) } as const;

interface Including {
  readonly fingerprint?: string | undefined;
  readonly include_rejected?: boolean;
  readonly include_accepted?: boolean;
  readonly include_denied?: boolean;
}

function keyWheel(parts: KeyWheelDeps): FunctionTable {
  const { keys } = parts;
  return {
    'key.list_all': masterFunction({
      summary: 'All keys by state, and the files of the master.',
      parameters: {},
      call: () => listAll(parts),
    }),
    'key.list': masterFunction({
      summary: 'The keys of one state: acc, pre or un, rej, den; or all.',
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
      summary: 'The keys that a glob means, by state.',
      parameters: matching,
      call: ({ match }) => nameMatch(parts, match),
    }),
    'key.accept': masterFunction({
      summary: 'Accepts the pending keys that a glob means.',
      parameters: { ...matching, ...alsoRejected, ...exactly },
      call: async ({ match, ...including }, { by }) => {
        for (const one of globsOf(match)) await keys.accept(selection(one, including), by);
        return nameMatch(parts, match);
      },
    }),
    'key.reject': masterFunction({
      summary: 'Rejects the pending keys that a glob means.',
      parameters: { ...matching, ...alsoAccepted, ...exactly },
      call: async ({ match, ...including }, { by }) => {
        for (const one of globsOf(match)) await keys.reject(selection(one, including), by);
        return nameMatch(parts, match);
      },
    }),
    'key.delete': masterFunction({
      summary: 'Deletes the keys that a glob means.',
      parameters: matching,
      call: async ({ match }, { by }) => {
        for (const one of globsOf(match)) await keys.delete(selection(one, {}), by);
        return nameMatch(parts, match);
      },
    }),
    'key.accept_dict': masterFunction({
      summary: 'Accepts keys: a map of states to ids.',
      parameters: { match: required(map), ...alsoRejected },
      call: async ({ match, ...including }, { by }) => {
        const states = ['minions_pre', ...foldersOf(including)];
        return forEachKey(parts, match, states, (id, state) =>
          keys.accept({ ...selection(id, {}), state }, by),
        );
      },
    }),
    'key.reject_dict': masterFunction({
      summary: 'Rejects keys: a map of states to ids.',
      parameters: { match: required(map), ...alsoAccepted },
      call: async ({ match, ...including }, { by }) => {
        const states = ['minions_pre', ...foldersOf(including)];
        return forEachKey(parts, match, states, (id, state) =>
          keys.reject({ ...selection(id, {}), state }, by),
        );
      },
    }),
    'key.delete_dict': masterFunction({
      summary: 'Deletes keys: a map of states to ids.',
      parameters: { match: required(map) },
      call: ({ match }, { by }) => {
        const states = folders.map(([name]) => name);
        return forEachKey(parts, match, states, (id, state) =>
          keys.delete({ ...selection(id, {}), state }, by),
        );
      },
    }),
    'key.print': masterFunction({
      summary: 'The public keys that a glob means.',
      parameters: matching,
      call: ({ match }) => byFolder(parts, match, ({ publicKey }) => publicKey),
    }),
    'key.finger': masterFunction({
      summary: 'The fingerprints of the keys that a glob means.',
      parameters: { ...matching, hash_type: optional(text) },
      call: async ({ match, hash_type: hashType }) => {
        const minions = await byFolder(parts, match, (key) => fingerprintOf(key, hashType));
        const own = (await masterFingerprints(parts, hashType)).filter(([name]) =>
          matchesAny(match, name),
        );
        return own.length === 0 ? minions : { ...minions, local: Object.fromEntries(own) };
      },
    }),
    'key.finger_master': masterFunction({
      summary: "The fingerprints of the master's own keys.",
      parameters: { hash_type: optional(text) },
      call: async ({ hash_type: hashType }) => ({
        local: Object.fromEntries(await masterFingerprints(parts, hashType)),
      }),
    }),
    'key.master_key_str': masterFunction({
      summary: "The master's own public keys.",
      parameters: {},
      call: () => ({
        local: Object.fromEntries(parts.ownKeys().map(({ name, pem }) => [name, pem])),
      }),
    }),
  };
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

/** Globs are separated by commas. */
function globsOf(match: string): string[] {
  return match.split(',').filter((glob) => glob !== '');
}

function matchesAny(match: string, name: string): boolean {
  return globsOf(match).some((glob) => compileGlob(glob)(name));
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
    const matched = ids.filter((id) => matchesAny(match, id));
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
  const all = (await keys.list()).filter(({ id }) => matchesAny(match, id));
  for (const [folder, state] of folders) {
    const entries = all.filter((key) => key.state === state).map((key) => [key.id, toValue(key)]);
    if (entries.length > 0) found[folder] = Object.fromEntries(entries);
  }
  return found;
}

/**
 * Does it to those that are in the state under which they are named, and to no other key of the
 * same ids; says who is where then.
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
      throw new MasterError('ERR_ARGS', `match: ${folder} has no list of ids`);
    for (const id of ids) {
      if (typeof id !== 'string' || before[folder]?.includes(id) !== true) continue;
      named.push(id);
      const state = states.includes(folder) ? stateOf(folder) : undefined;
      // protection: folder-of-a-dict
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
  throw new MasterError('ERR_ARGS', `hash_type is none of ${hashTypes.join(', ')}`);
}

// Key generation [salt/wheel/key.py]; private keys are returned to the caller only.

interface NewKeyWheelDeps {
  readonly keys: Pick<InProcessApi['keys'], 'create'>;
}

/** Smaller ones are made so large, as in Salt. */
const leastBits = 2048;

function newKeyWheel({ keys }: NewKeyWheelDeps): FunctionTable {
  return {
    'key.gen': masterFunction({
      summary: 'Makes a key pair that the master neither keeps nor accepts.',
      parameters: { id_: optional(text), keysize: optional(count, leastBits) },
      isConfidential: true,
      call: async ({ keysize }) => pairOf(await generateKeyPair(bitsOf(keysize))),
    }),
    'key.gen_accept': masterFunction({
      summary:
        'Makes a key pair for a minion and accepts it; nothing where one is accepted already.',
      parameters: {
        id_: required(text),
        keysize: optional(count, leastBits),
        force: optional(flag, false),
      },
      isConfidential: true,
      call: async ({ id_: id, keysize, force }, { by }) => {
        const created = await keys.create({ id, bits: bitsOf(keysize), force }, by);
        return created === null ? {} : pairOf(created);
      },
    }),
  };
}

function bitsOf(keysize: number): number {
  return Math.min(Math.max(keysize, leastBits), 8192);
}

function pairOf({ privatePem, publicPem }: CreatedKey): WireMap {
  return { priv: privatePem, pub: publicPem };
}

export interface WheelDeps {
  readonly config: LiveConfig;
  readonly auth: Auth;
  readonly jobs: Jobs;
  readonly keys: InProcessApi['keys'];
}

export function wheelTable({ config, auth, jobs, keys }: WheelDeps): FunctionTable {
  const ownKeys = (): readonly OwnKey[] => auth.ownKeys;
  return {
    ...keyWheel({ keys, ownKeys }),
    ...newKeyWheel({ keys }),
    ...(config.leftOut.includes('files') ? {} : fileRootsWheel({ config: config.fixed })),
    'config.values': masterFunction({
      summary: "The master's options under Salt's names; secret ones are left out.",
      parameters: {},
      call: () => ({
        ...saltValues(config.all, config.leftOut),
        external_auth: namesOf(config.current.externalAuth),
        user: config.fixed.user ?? processUser(),
      }),
    }),
    'minions.connected': masterFunction({
      summary: 'The minions that are connected.',
      parameters: {},
      call: () =>
        jobs
          .present()
          .map(({ id }) => id)
          .sort(),
    }),
  };
}

/** Who has rights by what they log in by; not which, and no options, some of which are secret. */
function namesOf(externalAuth: MasterConfig['externalAuth']): WireMap {
  const backends = Object.entries(externalAuth).map(([eauth, users]): [string, WireMap] => {
    const names = Object.keys(Object(users)).filter((name) => !name.startsWith('^'));
    return [eauth, Object.fromEntries(names.map((name) => [name, []]))];
  });
  return Object.fromEntries(backends);
}
