/** `saltbridge key list|finger|print`. */
import type { KeyInfo, KeysApi, LocalKeyInfo } from '../master/index.ts';
import { compileGlob } from '../minion-protocol/index.ts';
import type { CommandContext, OutputStream } from './context.ts';
import { CommandError } from './errors.ts';
import { groupByState, keyStates } from './key-states.ts';
import { noColors, terminalColors } from './output/colors.ts';
import { escapeLine, escapeName } from './output/escape.ts';
import { printJson, printLine } from './print.ts';

/** How keys are shown. */
export interface ShowOptions {
  readonly isJson: boolean;
}

type Output = Pick<CommandContext, 'stdout'>;

/** Lists every key by state. */
export async function listKeys(
  api: KeysApi,
  { isJson }: ShowOptions,
  { stdout }: Output,
): Promise<void> {
  const keys = await api.list();
  if (isJson) await printJson(stdout, groupByState(keys));
  else await printByState(stdout, keys, describeKey, { showsEmptyStates: true });
}

/** Shows fingerprints; without a glob of every key, the master's own first. */
export async function fingerprintKeys(
  api: KeysApi,
  glob: string | undefined,
  { isJson }: ShowOptions,
  { stdout }: Output,
): Promise<void> {
  const keys = glob === undefined ? await api.list() : await findKeys(api, glob);
  const local = glob === undefined ? await api.local() : [];
  if (isJson) {
    await printJson(stdout, { local, keys: keys.map(withoutPem) });
    return;
  }
  await printLocal(stdout, local);
  await printByState(stdout, keys, ({ id, fingerprint }) => `${escapeName(id)}:  ${fingerprint}`);
}

/** Shows public keys. */
export async function printKeys(
  api: KeysApi,
  glob: string,
  { isJson }: ShowOptions,
  { stdout }: Output,
): Promise<void> {
  const keys = await findKeys(api, glob);
  if (isJson) await printJson(stdout, keys);
  else
    await printByState(
      stdout,
      keys,
      ({ id, publicKey }) => `${escapeName(id)}:\n${pem(publicKey)}`,
    );
}

async function findKeys(api: KeysApi, glob: string): Promise<KeyInfo[]> {
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

/** The id, and what an operator should know of it. */
function describeKey({ id, protocol, conflicts, ...marks }: KeyInfo): string {
  const notes: string[] = [];
  if (marks.isUnusual) notes.push('unusual id');
  if (marks.alike) notes.push(`looks like ${namesOf(marks.alike)}`);
  if (marks.sharedWith) notes.push(`same key as ${namesOf(marks.sharedWith)}`);
  if (protocol > 0 && protocol < 3) notes.push(`protocol ${protocol}`);
  if (conflicts > 0) notes.push(`${conflicts} sign-ins with another key`);
  return notes.length === 0 ? escapeName(id) : `${escapeName(id)} (${notes.join(', ')})`;
}

const named = 3;

function namesOf(ids: readonly string[]): string {
  const more = ids.length > named ? ` and ${ids.length - named} more` : '';
  return ids.slice(0, named).map(escapeName).join(', ') + more;
}

function pem(text: string): string {
  return text.trimEnd().split('\n').map(escapeLine).join('\n');
}

function withoutPem({ publicKey: _, ...rest }: KeyInfo): Omit<KeyInfo, 'publicKey'> {
  return rest;
}
