import { access, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { loadMasterConfig, type MasterConfig } from '#config';
import type { KeyInfo, KeyState, KeysApi, LocalKeyInfo } from '#master';
import {
  cleanKeyText,
  generateKeyPair,
  keyFingerprint,
  parsePrivateKey,
  rsaSign,
  type WireValue,
} from '#minion-protocol';
import { makeDirectory } from '#runtime';
import { textOrder } from '#template/python/comparison.ts';
import { compileGlob } from '#template/python/fnmatch.ts';
import { type CommandDefaults, saltDefaults } from '../command-defaults.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { configOption } from '../options.ts';
import {
  addOutputOptions,
  chooseOutput,
  type OutputChoice,
  type OutputCommandOptions,
} from '../output/output-options.ts';
import { formatData } from '../output/outputters.ts';
import { type Colors, escapeLines, escapeName, printLine } from '../terminal.ts';
import { changeKey, type KeyOperation, writeNewFile } from './key.ts';
import { formatSaltUsageError, useSaltUsage } from './salt-usage.ts';

// `salt-key --gen-keys` and `--gen-signature` [salt key.py, crypt.py gen_keys, gen_signature].

/** What is signed, and with what; files that are not given are those of the PKI directory. */
export interface SignatureOptions {
  readonly priv?: string;
  readonly pub?: string;
  readonly signaturePath?: string;
  readonly autoCreate?: boolean;
  /** Bits of a key that is made. */
  readonly keysize: number;
}

/**
 * Makes `<name>.pem` and `<name>.pub`; a pair that is there stays.
 * @param passphrase - encrypts the private half
 * @returns the fingerprint of the public half
 */
export async function generateSaltKeyPair(
  dir: string,
  name: string,
  bits: number,
  passphrase?: string,
): Promise<string> {
  await makeDirectory(dir, 0o777);
  const base = path.join(dir, name);
  if (!(await fileExists(`${base}.pem`))) {
    const { privatePem, publicPem } = await generateKeyPair(bits, passphrase);
    await writeNewFile(`${base}.pem`, privatePem, 0o400);
    await writeFile(`${base}.pub`, publicPem, { mode: 0o644 });
  }
  return keyFingerprint(await readFile(`${base}.pub`, 'utf8'), 'sha256');
}

/**
 * Signs the master's public key as minions get it: without the last line feed of its file, which
 * Salt's own `salt-key` signs as well [WIRE 6.6].
 * @returns true, or why not: false when the file is there
 */
export async function generateMasterSignature(
  config: MasterConfig,
  options: SignatureOptions,
): Promise<boolean | string> {
  const inPki = (name: string): string => path.join(config.pkiDir, name);
  const passphrase = config.signingKeyPass ?? undefined;
  const pub = options.pub || inPki('master.pub');
  const signing = inPki(`${config.masterSignKeyName}.pem`);
  if (options.pub && !(await fileExists(pub))) return `Public-key ${pub} does not exist`;
  if (options.priv && !(await fileExists(options.priv))) {
    return `Private-key ${options.priv} does not exist`;
  }
  if (!options.priv && !(await fileExists(signing))) {
    if (options.autoCreate !== true) return 'No usable private-key found';
    await generateSaltKeyPair(config.pkiDir, config.masterSignKeyName, options.keysize, passphrase);
  }
  if (!(await fileExists(pub))) return 'No usable public-key found';
  const file = path.resolve(options.signaturePath || config.pkiDir, config.masterPubkeySignature);
  if (await fileExists(file)) return false;
  const pem = await readFile(options.priv || signing, 'utf8');
  const key = parsePrivateKey(pem, passphrase);
  const signature = rsaSign(
    key,
    Buffer.from(cleanKeyText(await readFile(pub, 'utf8'))),
    'PKCS1v15-SHA1',
  );
  await writeFile(file, `${signature.toString('base64')}\n`, { flag: 'wx' });
  return true;
}

async function fileExists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

// Salt's outputter for keys [salt output/key.py].

/** Where keys are, by the names of Salt's directories; `local` are the master's own. */
type KeyPlaceName = 'local' | 'minions' | 'minions_denied' | 'minions_pre' | 'minions_rejected';

/** Ids by place, or ids with a text each. */
type KeysByPlace = ReadonlyMap<KeyPlaceName, readonly string[] | ReadonlyMap<string, string>>;

const headings: Readonly<
  Record<KeyPlaceName, { text: string; light: keyof Colors; color: keyof Colors }>
> = {
  local: { text: 'Local Keys:', light: 'lightMagenta', color: 'magenta' },
  minions: { text: 'Accepted Keys:', light: 'lightGreen', color: 'green' },
  minions_denied: { text: 'Denied Keys:', light: 'lightMagenta', color: 'magenta' },
  minions_pre: { text: 'Unaccepted Keys:', light: 'lightRed', color: 'red' },
  minions_rejected: { text: 'Rejected Keys:', light: 'lightBlue', color: 'blue' },
};

/** Each place with its keys below it, both sorted. May be empty. */
function formatKeys(keys: KeysByPlace, colors: Colors): string {
  const places = [...keys].sort(([left], [right]) => textOrder(left, right));
  const lines = places.flatMap(([place, content]) => {
    const { text, light, color } = headings[place];
    const entries = content instanceof Map ? [...content] : [...content].map((id) => [id] as const);
    const sorted = entries.sort(([left], [right]) => textOrder(left, right));
    return [
      `${colors[light]}${text}${colors.end}`,
      ...sorted.map(([id, value]) => {
        const shown = value === undefined ? '' : `:  ${escapeLines(value)}`;
        return `${colors[color]}${escapeName(id)}${shown}${colors.end}`;
      }),
    ];
  });
  return lines.join('\n').trimEnd();
}

// Operations on existing keys [salt key.py KeyCLI].

/** Salt's directories, in the order in which it looks into them. */
const keyPlaces: readonly { readonly place: KeyPlaceName; readonly state: KeyState }[] = [
  { place: 'minions', state: 'accepted' },
  { place: 'minions_pre', state: 'pending' },
  { place: 'minions_rejected', state: 'rejected' },
  { place: 'minions_denied', state: 'denied' },
];

/** Which states an argument of `--list` means, by how it begins. */
const listArguments: readonly (readonly [string, readonly KeyState[]])[] = [
  ['acc', ['accepted']],
  ['pre', ['pending']],
  ['un', ['pending']],
  ['rej', ['rejected']],
  ['den', ['denied']],
  ['all', ['accepted', 'pending', 'rejected', 'denied']],
];

/** What a change is asked for with. */
interface KeyChangeRequest {
  readonly operation: KeyOperation;
  /** Globs with commas between them. */
  readonly match: string;
  /** States beyond the operation's own. */
  readonly include: readonly KeyState[];
  /** Whether nobody is to be asked. */
  readonly isConfirmed: boolean;
}

/** The states that `--list <argument>` means; `undefined`: it is none of Salt's. */
function listedStates(argument: string): readonly KeyState[] | undefined {
  return listArguments.find(([start]) => argument.startsWith(start))?.[1];
}

/** Shows and changes keys in Salt's words. */
class SaltKeyActions {
  readonly #api: KeysApi;
  readonly #context: CommandContext;
  readonly #choice: OutputChoice;
  readonly #configDir: string;

  constructor(
    api: KeysApi,
    context: CommandContext,
    { choice, configDir }: { readonly choice: OutputChoice; readonly configDir: string },
  ) {
    this.#api = api;
    this.#context = context;
    this.#choice = choice;
    this.#configDir = configDir;
  }

  async list(states: readonly KeyState[]): Promise<void> {
    const keys = await this.#api.list();
    await this.#show(
      new Map(
        keyPlaces.flatMap(({ place, state }) => {
          const isListed = states.includes(state);
          return isListed ? [[place, idsIn(keys, state)] as const] : [];
        }),
      ),
    );
  }

  /** Public keys; `undefined`: all, also of places without any. */
  async print(match: string | undefined): Promise<void> {
    await this.#show(await this.#texts(match, ({ publicKey }) => publicKey));
  }

  /** Fingerprints, the master's own too. */
  async fingerprints(match: string | undefined): Promise<void> {
    const texts = await this.#texts(match, ({ fingerprint }) => fingerprint);
    const matches = globMatcher(match ?? '*');
    const own = await this.#api.local();
    const halves = [...own, ...(await this.#privateHalves(own.map(({ name }) => name)))];
    const local = halves
      .filter(({ name }) => matches(name))
      .sort((left, right) => textOrder(left.name, right.name));
    if (match === undefined || local.length > 0) {
      texts.set('local', new Map(local.map(({ name, fingerprint }) => [name, fingerprint])));
    }
    for (const [place, found] of texts) if (found.size === 0) texts.delete(place);
    await this.#show(texts);
  }

  /** Fingerprints of the files of private halves, which tell whether two files are the same. */
  async #privateHalves(publicNames: readonly string[]): Promise<LocalKeyInfo[]> {
    const { config } = await loadMasterConfig(this.#configDir);
    const found: LocalKeyInfo[] = [];
    for (const name of publicNames.map((each) => each.replace(/\.pub$/, '.pem'))) {
      const pem = await readFile(path.join(config.pkiDir, name), 'utf8').catch(() => undefined);
      if (pem === undefined) continue;
      found.push({ name, fingerprint: keyFingerprint(pem, config.hashType) });
    }
    return found;
  }

  /** Shows what matches, asks, changes it, and names what was changed. */
  async change(request: KeyChangeRequest): Promise<void> {
    const { operation, match } = request;
    const matches = globMatcher(match);
    const keys = await this.#api.list();
    const byPlace = new Map<KeyPlaceName, KeyInfo[]>();
    for (const { place, state } of changeOrder(request)) {
      const found = sortById(keys.filter((key) => key.state === state && matches(key.id)));
      if (found.length > 0) byPlace.set(place, found);
    }
    if (byPlace.size === 0) return this.#printNoMatch(request);
    const { stdout } = this.#context;
    await printLine(stdout, `The following keys are going to be ${participle(operation)}:`);
    await this.#show(new Map([...byPlace].map(([place, found]) => [place, found.map(idOf)])));
    if (!request.isConfirmed && !(await this.#confirm(operation))) return;
    const chosen = [...byPlace.values()].flat();
    for (const id of await this.#apply(operation, chosen)) {
      await printLine(stdout, `Key for minion ${escapeName(id)} ${participle(operation)}.`);
    }
  }

  async #texts(
    match: string | undefined,
    textOf: (key: KeyInfo) => string,
  ): Promise<Map<KeyPlaceName, ReadonlyMap<string, string>>> {
    const matches = globMatcher(match ?? '*');
    const keys = await this.#api.list();
    const texts = new Map<KeyPlaceName, ReadonlyMap<string, string>>();
    for (const { place, state } of keyPlaces) {
      const found = sortById(keys.filter((key) => key.state === state && matches(key.id)));
      if (match === undefined || found.length > 0) {
        texts.set(place, new Map(found.map((key) => [key.id, textOf(key)])));
      }
    }
    return texts;
  }

  async #show(keys: KeysByPlace): Promise<void> {
    const { output, sink } = this.#choice;
    const isSaltsOwn = output.outputter === undefined || output.outputter === 'highstate';
    if (isSaltsOwn) return sink.write(formatKeys(keys, output.colors));
    const data = new Map<WireValue, WireValue>(
      [...keys].map(([place, ids]) => [place, ids instanceof Map ? new Map(ids) : [...ids]]),
    );
    await sink.write(formatData(data, undefined, output));
  }

  async #confirm(operation: KeyOperation): Promise<boolean> {
    const isDelete = operation === 'delete';
    this.#context.stdout.write(`Proceed? ${isDelete ? '[N/y]' : '[n/Y]'} `);
    const answer = await this.#context.input.readLine();
    if (answer === undefined) {
      throw new CommandError('ERR_NOT_CONFIRMED', 'nobody answered; add -y');
    }
    return answer === '' ? !isDelete : answer.toLowerCase().startsWith('y');
  }

  /** Salt names an id once for each place in which it is found afterwards. */
  async #apply(operation: KeyOperation, chosen: readonly KeyInfo[]): Promise<string[]> {
    for (const key of chosen) await changeKey(operation, this.#api, key, {});
    if (operation === 'delete') return chosen.map(idOf);
    const after = await this.#api.list();
    const found = chosen.flatMap(({ id }) => after.filter((key) => key.id === id));
    const order = [...new Set(found.map(({ state }) => state))];
    return order.flatMap((state) => found.filter((key) => key.state === state).map(idOf));
  }

  async #printNoMatch({ match, include }: KeyChangeRequest): Promise<void> {
    const states = ['accepted', 'rejected', 'denied'] as const;
    const named = ['unaccepted', ...states.filter((state) => include.includes(state))];
    const last = named.pop();
    const shown = named.length === 0 ? last : `${named.join(', ')} or ${last}`;
    const message = `The key glob '${escapeName(match)}' does not match any ${shown} keys.`;
    await printLine(this.#context.stdout, message);
  }
}

/** Deleting looks everywhere; others list what is pending first. */
function changeOrder({ operation, include }: KeyChangeRequest): typeof keyPlaces {
  if (operation === 'delete') return keyPlaces;
  const order: readonly KeyState[] = ['pending', 'accepted', 'rejected', 'denied'];
  return order.flatMap((state) => {
    const isMeant = state === 'pending' || include.includes(state);
    return isMeant ? keyPlaces.filter((each) => each.state === state) : [];
  });
}

function globMatcher(match: string): (id: string) => boolean {
  const globs = match.split(',').map((glob) => compileGlob(glob));
  return (id) => globs.some((matches) => matches(id));
}

function idsIn(keys: readonly KeyInfo[], state: KeyState): string[] {
  return sortById(keys.filter((key) => key.state === state)).map(idOf);
}

/** [salt utils/data.py sorted_ignorecase] */
function sortById(keys: readonly KeyInfo[]): KeyInfo[] {
  return keys.toSorted((left, right) => textOrder(left.id.toLowerCase(), right.id.toLowerCase()));
}

function idOf({ id }: KeyInfo): string {
  return id;
}

function participle(operation: KeyOperation): string {
  return `${operation.replace(/e$/, '')}ed`;
}

// Options [salt utils/parsers.py SaltKeyOptionParser].

/** As commander names them. */
interface SaltKeyOptions extends OutputCommandOptions {
  readonly configDir: string;
  readonly list?: string;
  readonly listAll?: boolean;
  readonly accept?: string;
  readonly acceptAll?: boolean;
  readonly reject?: string;
  readonly rejectAll?: boolean;
  readonly delete?: string;
  readonly deleteAll?: boolean;
  readonly print?: string;
  readonly printAll?: boolean;
  readonly finger?: string;
  readonly fingerAll?: boolean;
  readonly includeAll?: boolean;
  readonly includeAccepted?: boolean;
  readonly includeRejected?: boolean;
  readonly includeDenied?: boolean;
  readonly yes?: boolean;
  readonly genKeys?: string;
  readonly genKeysDir: string;
  readonly keysize: string;
  readonly genSignature?: boolean;
  readonly signaturePath?: string;
  readonly priv?: string;
  readonly pub?: string;
  readonly autoCreate?: boolean;
}

/** Adds them all, in the order in which they are explained. */
function addSaltKeyOptions(command: Command): void {
  command
    .addOption(configOption())
    .option('-l, --list <state>', 'list keys: acc, pre (or un), rej, den, all')
    .option('-L, --list-all', 'list all keys; the default without other options')
    .option('-a, --accept <glob>', 'accept pending keys')
    .option('-A, --accept-all', 'accept all pending keys')
    .option('-r, --reject <glob>', 'reject pending keys')
    .option('-R, --reject-all', 'reject all pending keys')
    .option(
      '--include-all',
      'include accepted keys when rejecting, and rejected keys when accepting',
    )
    .option('--include-accepted', 'include accepted keys when rejecting')
    .option('--include-rejected', 'include rejected keys when accepting')
    .option('--include-denied', 'include denied keys when accepting or rejecting')
    .option('-p, --print <glob>', 'show public keys')
    .option('-P, --print-all', 'show all public keys')
    .option('-d, --delete <glob>', 'delete keys')
    .option('-D, --delete-all', 'delete all keys')
    .option('-f, --finger <glob>', 'show fingerprints')
    .option('-F, --finger-all', 'show all fingerprints')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--gen-keys <name>', 'make a key pair')
    .option('--gen-keys-dir <dir>', 'directory for the key pair', '.')
    .option('--keysize <bits>', 'size of new keys in bits', '2048')
    .option('--gen-signature', "sign the master's public key")
    .option('--signature-path <dir>', 'directory for the signature')
    .option('--priv <file>', 'private key that signs')
    .option('--pub <file>', 'public key to be signed')
    .option('--auto-create', 'create the signing key if it does not exist');
  addOutputOptions(command);
  command
    .option('-q, --quiet', 'has no effect here; in Salt it suppresses errors only')
    .addOption(new Option('--rotate-aes-key <boolean>').hideHelp())
    .addOption(new Option('--preserve-minions <boolean>').hideHelp())
    .addOption(new Option('--log-level <level>').hideHelp());
}

/** Bits that Salt takes. */
const keysizes = { minimum: 2048, maximum: 32_768 };

/** `saltbridge salt-key`: takes the flags of Salt's own command and prints what it prints. */
export function defineSaltKey(command: Command, context: CommandContext): void {
  addSaltKeyOptions(command);
  useSaltUsage(command, context.stdout);
  command.action(async (options: SaltKeyOptions) => {
    const complaint = findUsageError(options);
    if (complaint === undefined) return runSaltKey(options, context);
    await printLine(context.stderr, formatSaltUsageError('salt-key', complaint));
    context.setExitCode(exitCodes.usage);
  });
}

/** In Salt's words. */
function findUsageError({ list, keysize }: SaltKeyOptions): string | undefined {
  if (list && listedStates(list) === undefined) {
    return `'${list}' is not a valid argument to '--list'`;
  }
  const bits = Number(keysize);
  if (!/^\d+$/.test(keysize)) return `option --keysize: invalid integer value: '${keysize}'`;
  if (bits < keysizes.minimum) return `The minimum value for keysize is ${keysizes.minimum}`;
  if (bits > keysizes.maximum) return `The maximum value for keysize is ${keysizes.maximum}`;
  return undefined;
}

async function runSaltKey(options: SaltKeyOptions, context: CommandContext): Promise<void> {
  if (options.genKeys || options.genSignature) return generateKeys(options, context);
  const { keys, close } = await context.openKeys(options.configDir);
  try {
    const choice = await chooseOutput(options, context);
    const { configDir } = options;
    const saltKey = new SaltKeyActions(keys, context, { choice, configDir });
    await runKeyAction(saltKey, options);
  } finally {
    await close();
  }
}

/** When several things are asked for, Salt does the first in this order. */
async function runKeyAction(saltKey: SaltKeyActions, options: SaltKeyOptions): Promise<void> {
  const { list, accept, reject, finger } = options;
  if (list) return saltKey.list(listedStates(list) ?? []);
  if (options.listAll) return saltKey.list(allStates);
  if (options.print) return saltKey.print(options.print);
  if (options.printAll) return saltKey.print(undefined);
  const change = { include: includedStates(options), isConfirmed: options.yes === true };
  if (accept || options.acceptAll) {
    const include = change.include.filter((state) => state !== 'accepted');
    return saltKey.change({ ...change, operation: 'accept', match: accept || '*', include });
  }
  if (reject || options.rejectAll) {
    const include = change.include.filter((state) => state !== 'rejected');
    return saltKey.change({ ...change, operation: 'reject', match: reject || '*', include });
  }
  if (options.delete || options.deleteAll) {
    return saltKey.change({ ...change, operation: 'delete', match: options.delete || '*' });
  }
  if (finger) return saltKey.fingerprints(finger);
  return options.fingerAll ? saltKey.fingerprints(undefined) : saltKey.list(allStates);
}

const allStates: readonly KeyState[] = ['accepted', 'pending', 'rejected', 'denied'];

function includedStates(options: SaltKeyOptions): KeyState[] {
  const states: KeyState[] = [];
  if (options.includeAll || options.includeAccepted) states.push('accepted');
  if (options.includeAll || options.includeRejected) states.push('rejected');
  if (options.includeDenied) states.push('denied');
  return states;
}

async function generateKeys(options: SaltKeyOptions, context: CommandContext): Promise<void> {
  const keysize = Number(options.keysize);
  // A pair of keys may be made where no configuration is.
  const commandDefaults = async (): Promise<CommandDefaults> => saltDefaults;
  const { output, sink } = await chooseOutput(options, { ...context, commandDefaults });
  const result = options.genKeys
    ? await generateSaltKeyPair(options.genKeysDir, options.genKeys, keysize)
    : await generateMasterSignature((await loadMasterConfig(options.configDir)).config, {
        ...options,
        keysize,
      });
  await sink.write(formatData({ return: result }, undefined, output));
}
