/** `saltbridge key list`, `key finger` and `key print`: show minion keys. */

import type { KeyInfo, KeyState, MasterApi } from '#master';
import { formatNames } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { CommandContext, OutputStream } from '../context.ts';
import { CommandError } from '../errors.ts';
import {
  type Colors,
  escapeLine,
  escapeName,
  noColors,
  printJson,
  printLine,
  terminalColors,
} from '../terminal.ts';

type LocalKeyInfo = Awaited<ReturnType<MasterApi['keys']['local']>>[number];

/** Key states in the order in which `salt-key -L` prints them [salt key.py]. */
const keyStates: readonly {
  readonly state: KeyState;
  readonly heading: string;
  readonly color: keyof Colors;
}[] = [
  { state: 'accepted', heading: 'Accepted Keys:', color: 'green' },
  { state: 'denied', heading: 'Denied Keys:', color: 'magenta' },
  { state: 'pending', heading: 'Unaccepted Keys:', color: 'red' },
  { state: 'rejected', heading: 'Rejected Keys:', color: 'blue' },
];

/**
 * Groups keys by state. The result contains all states in Salt's order, even states without keys.
 */
function groupByState(keys: readonly KeyInfo[]): Record<KeyState, KeyInfo[]> {
  const groups: Record<KeyState, KeyInfo[]> = {
    accepted: [],
    denied: [],
    pending: [],
    rejected: [],
  };
  for (const key of keys) groups[key.state].push(key);
  return groups;
}

/** Display options of keys. */
interface KeyShowOptions {
  readonly isJson: boolean;
}

type KeyOutput = Pick<CommandContext, 'stdout'>;

/** Lists all keys by state. */
export async function listKeys(
  api: MasterApi['keys'],
  { isJson }: KeyShowOptions,
  { stdout }: KeyOutput,
): Promise<void> {
  const keys = await api.list();
  if (isJson) await printJson(stdout, groupByState(keys));
  else await printByState(stdout, keys, describeKey, { showsEmptyStates: true });
}

/**
 * Prints fingerprints. Without a glob, prints the fingerprints of the master's own keys and of all
 * other keys.
 */
export async function fingerprintKeys(
  api: MasterApi['keys'],
  glob: string | undefined,
  { isJson }: KeyShowOptions,
  { stdout }: KeyOutput,
): Promise<void> {
  const keys = glob === undefined ? await api.list() : await findKeys(api, glob);
  const local = glob === undefined ? await api.local() : [];
  if (isJson) {
    await printJson(stdout, { local, keys: keys.map(omitPublicKey) });
    return;
  }
  await printLocal(stdout, local);
  await printByState(stdout, keys, ({ id, fingerprint }) => `${escapeName(id)}:  ${fingerprint}`);
}

/**
 * Prints the public keys of all matching minions, by state.
 * @throws CommandError ERR_KEY_NO_MATCH
 */
export async function printKeys(
  api: MasterApi['keys'],
  glob: string,
  { isJson }: KeyShowOptions,
  { stdout }: KeyOutput,
): Promise<void> {
  const keys = await findKeys(api, glob);
  if (isJson) await printJson(stdout, keys);
  else
    await printByState(
      stdout,
      keys,
      ({ id, publicKey }) => `${escapeName(id)}:\n${escapePem(publicKey)}`,
    );
}

async function findKeys(api: MasterApi['keys'], glob: string): Promise<KeyInfo[]> {
  const matches = compileGlob(glob);
  const keys = (await api.list()).filter(({ id }) => matches(id));
  if (keys.length > 0) return keys;
  throw new CommandError('ERR_KEY_NO_MATCH', `no key in any state matches ${glob}`);
}

async function printLocal(stdout: OutputStream, local: readonly LocalKeyInfo[]): Promise<void> {
  if (local.length > 0) await printLine(stdout, 'Local Keys:');
  for (const { name, fingerprint } of local) await printLine(stdout, `${name}:  ${fingerprint}`);
}

async function printByState(
  stdout: OutputStream,
  keys: readonly KeyInfo[],
  describe: (key: KeyInfo) => string,
  { showsEmptyStates = false }: { readonly showsEmptyStates?: boolean } = {},
): Promise<void> {
  const colors = stdout.isTTY === true ? terminalColors : noColors;
  const groups = groupByState(keys);
  for (const { state, heading, color } of keyStates) {
    if (groups[state].length === 0 && !showsEmptyStates) continue;
    await printLine(stdout, `${colors[color]}${heading}${colors.end}`);
    for (const key of groups[state]) {
      await printLine(stdout, `${colors[color]}${describe(key)}${colors.end}`);
    }
  }
}

/**
 * Returns the id of a key, followed by notes about the key, for example that it is not a valid
 * public key.
 */
function describeKey({ id, protocol, conflicts, ...marks }: KeyInfo): string {
  const notes: string[] = [];
  if (marks.isInvalid) notes.push('no public key');
  if (marks.isUnusual) notes.push('unusual id');
  if (marks.alike) notes.push(`looks like ${formatIds(marks.alike, marks.alikeCount)}`);
  if (marks.sharedWith)
    notes.push(`same key as ${formatIds(marks.sharedWith, marks.sharedWithCount)}`);
  if (protocol > 0 && protocol < 3) notes.push(`protocol ${protocol}`);
  if (conflicts > 0) notes.push(`${conflicts} sign-ins with a key other than this one`);
  return notes.length === 0 ? escapeName(id) : `${escapeName(id)} (${notes.join(', ')})`;
}

const maxShownIds = 3;

function formatIds(ids: readonly string[], count = ids.length): string {
  return formatNames(ids.slice(0, maxShownIds).map(escapeName), maxShownIds, count);
}

function escapePem(text: string): string {
  return text.trimEnd().split('\n').map(escapeLine).join('\n');
}

function omitPublicKey({ publicKey: _, ...rest }: KeyInfo): Omit<KeyInfo, 'publicKey'> {
  return rest;
}
